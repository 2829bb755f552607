"""Train an agent on ALFWorld with turn-level credit from itself: the published experiment 09-AgentOPSD.

An update plays `--tasks-per-update` games, `--group-size` times each, with the weights frozen. A trajectory earns 1
for winning. As each one ends, the same weights read it again with the skills for its task in the system prompt, and
say how likely every action is now. Where that teacher finds a turn likelier than the student did, the turn is evidence
of being on the way to success; beliefs built from it let a turn weigh up to λβ more or less than its trajectory's
advantage. The outcome alone decides the sign. One PPO step on the LoRA follows, ratio clipped to [0.8, 1.24].

    uv run --extra local python 09-AgentOPSD/train.py --preset laptop       # no account, no download, no GPU
    uv run --extra alfworld python 09-AgentOPSD/train.py --help

Method: docs in 09-AgentOPSD/README.md; AgentOPSD arXiv 2608.05987, GRPO 2402.03300, PPO 1707.06347.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentic_rl.config import Preset, option, parse_config, run_main
from agentic_rl.errors import ConfigError
from agentic_rl.training.config import LAPTOP, TrainConfig

if TYPE_CHECKING:
    from agentic_rl.policy.protocol import Policy
    from agentic_rl.skills import SkillBook
    from agentic_rl.training.recipes import AgentOPSD

TEACHER_RESERVE = 2_048
"""Tokens kept free beyond a student's trajectory for the teacher's longer system prompt."""


@dataclass(frozen=True, kw_only=True)
class AgentOPSDConfig(TrainConfig):
    """recipe 09: turn-level credit from a self-teacher"""

    tasks_per_update: int = option(16, minimum=1, help="games an update")
    max_turns: int = option(50, minimum=1, help="turns an episode")
    max_action_tokens: int = option(512, minimum=1, help="tokens an assistant turn")
    max_trajectory_tokens: int = option(
        14_336, minimum=64, help="token limit of a trajectory; 2,048 more are kept for the teacher's prompt"
    )
    skills_dir: Path | None = option(None, metavar="DIR", help="the teacher's texts (default: the project's own)")
    teacher_concurrency: int = option(16, minimum=1, help="trajectories scored at once")
    evidence_baseline: Literal["rescored", "sampled"] | None = option(
        None,
        help="the student's log-probs: scored again like the teacher's, or as sampled "
        "(default: rescored where scoring is free, sampled where it is billed)",
    )
    gamma: float = option(0.95, minimum=0, maximum=1, help="how long evidence lasts")
    reshape_lambda: float = option(0.5, minimum=0, maximum=1, help="share of a turn's advantage that is reshaped")
    weight_bound: float = option(0.2, minimum=0, maximum=1, help="most that a turn's weight departs from 1")
    epsilon: float = option(1e-4, above=0, maximum=0.49, help="keeps standard deviations and beliefs off their ends")
    loss_mode: Literal["builtin_ppo"] = option("builtin_ppo", help="the loss: the backend's own clipped PPO")
    learning_rate: float = option(4e-6, above=0, help="Adam's learning rate")
    ppo_clip_high: float = option(1.24, minimum=0, help="upper bound on the probability ratio itself")
    data_root: Path = option(
        Path("09-AgentOPSD/datasets/alfworld"),
        metavar="DIR",
        help="the folder above json_2.1.1, json_2.1.1 itself, or one split",
    )
    run_name: str = option(
        "agentopsd-alfworld-qwen35-4b", metavar="NAME", help="names the run directory, checkpoints and SwanLab run"
    )
    swanlab_project: str = option("agentic-rl-lab-agentopsd", metavar="NAME", help="SwanLab project")

    @property
    def games_per_update(self) -> int:
        return self.tasks_per_update

    @property
    def turn_limit(self) -> int:
        return self.max_turns

    @property
    def turn_tokens(self) -> int:
        return self.max_action_tokens

    @property
    def sequence_limit(self) -> int:
        return self.max_trajectory_tokens + TEACHER_RESERVE


PRESETS = {
    "laptop": Preset(
        {
            **LAPTOP.values,
            "run_name": "agentopsd-laptop",
            "tasks_per_update": 8,
            "max_turns": 12,
            "max_action_tokens": 40,
        },
        {**LAPTOP.unless, "max_turns": "data_root"},
    )
}


def make_recipe(config: AgentOPSDConfig, skills: SkillBook, policy: Policy) -> AgentOPSD:
    from agentic_rl.training.recipes import AgentOPSD

    for task_type in skills.texts:
        length = len(policy.tokenizer.encode(skills.for_task(task_type)))
        if length > TEACHER_RESERVE:
            raise ConfigError(f"the skills for {task_type} take {length} tokens; the teacher has {TEACHER_RESERVE}")
    return AgentOPSD(
        skills=skills,
        teacher_concurrency=config.teacher_concurrency,
        evidence_baseline=config.evidence_baseline or ("rescored" if policy.rescoring_is_free else "sampled"),
        max_sequence_tokens=policy.max_sequence_tokens,
        retries=config.sample_retries,
        timeout_s=config.sample_timeout,
        gamma=config.gamma,
        reshape_lambda=config.reshape_lambda,
        weight_bound=config.weight_bound,
        epsilon=config.epsilon,
    )


def main(argv: Sequence[str] | None = None) -> int:
    config = parse_config(
        AgentOPSDConfig, argv, prog="09-AgentOPSD/train.py", description=__doc__.split("\n\n")[0], presets=PRESETS
    )

    from agentic_rl.rollout.trajectory import StopReason
    from agentic_rl.skills import SkillBook, builtin_skills_dir
    from agentic_rl.training import train

    skills = SkillBook.load(config.skills_dir or builtin_skills_dir())
    return train(
        config,
        lambda policy: make_recipe(config, skills, policy),
        turn_limit_reason=StopReason.MAX_TURNS,
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
