"""Rollout: how the agent plays.

Turn, trajectory and group; the runner in which no trajectory waits for another; the self-teacher's scoring.
"""

from agentic_rl.rollout.config import RolloutConfig
from agentic_rl.rollout.progress import PlayListener, RolloutProgress
from agentic_rl.rollout.runner import Rollout, run_groups
from agentic_rl.rollout.seeds import derive_seed
from agentic_rl.rollout.teacher import SkillTeacher, TeacherScore
from agentic_rl.rollout.trajectory import Group, StopReason, Trajectory, Turn

__all__ = [
    "Group",
    "PlayListener",
    "Rollout",
    "RolloutConfig",
    "RolloutProgress",
    "SkillTeacher",
    "StopReason",
    "TeacherScore",
    "Trajectory",
    "Turn",
    "derive_seed",
    "run_groups",
]
