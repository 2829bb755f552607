"""Real trajectories, each read by the teacher as recipe 09 has it read: told the skills, and told nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agentic_rl.evaluation.teacher.config import TeacherConfig
from agentic_rl.games.interface import TASK_TYPES, GameEntry
from agentic_rl.policy.protocol import Sampler
from agentic_rl.rollout import PlayListener, RolloutConfig, SkillTeacher, Trajectory, run_groups
from agentic_rl.rollout.trajectory import StopReason
from agentic_rl.skills import SkillBook

if TYPE_CHECKING:
    from agentic_rl.dialogue import ChatFormat

NO_SKILLS = SkillBook(Path(), dict.fromkeys(TASK_TYPES, ""))
"""Tells the teacher nothing: it reads what the student read."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A trajectory with the evidence of each of its turns, by what the teacher was told."""

    trajectory: Trajectory
    with_skills: NDArray[np.float64]
    without: NDArray[np.float64]


async def play_and_score(
    games: Sequence[GameEntry],
    sampler: Sampler,
    chat: ChatFormat,
    config: TeacherConfig,
    skills: SkillBook,
    *,
    progress: PlayListener | None = None,
) -> list[Scored]:
    """Play every game `config.group_size` times; each trajectory is scored as it ends, while others still play.

    Returns
    -------
    list
        Sorted by game and branch. What could not be played or scored is not in it (the rollout has said so).
    """
    scored: list[Scored] = []
    told, untold = (_teacher(sampler, chat, config, book) for book in (skills, NO_SKILLS))

    async def score(trajectory: Trajectory) -> None:
        # Both read the very same tokens of the very same trajectories.
        first, second = await asyncio.gather(told.score(trajectory), untold.score(trajectory))
        scored.append(Scored(trajectory, first.evidence, second.evidence))

    how = RolloutConfig.of(
        config,
        group_size=config.group_size,
        max_live=config.live_trajectories,
        turn_limit_reason=StopReason.MAX_TURNS,
    )
    await run_groups(games, sampler, chat, how, update=0, on_trajectory=score, progress=progress)
    return sorted(scored, key=lambda one: (one.trajectory.game.game_id, one.trajectory.group_index))


def _teacher(sampler: Sampler, chat: ChatFormat, config: TeacherConfig, skills: SkillBook) -> SkillTeacher:
    return SkillTeacher(
        sampler,
        chat,
        skills,
        baseline=config.evidence_baseline,
        concurrency=config.teacher_concurrency,
        # Only a service names a limit to a sampler; the local engine refuses by itself what is too long.
        max_sequence_tokens=getattr(sampler, "max_sequence_tokens", None),
        retries=config.sample_retries,
        timeout_s=config.sample_timeout,
    )
