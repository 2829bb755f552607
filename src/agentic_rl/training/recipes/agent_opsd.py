"""Recipe 09, AgentOPSD: the outcome gives the direction, the same weights with skills give each turn its size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from agentic_rl.credit import agent_opsd, agent_opsd_metrics
from agentic_rl.policy.protocol import Sampler
from agentic_rl.rollout.teacher import SkillTeacher, TeacherScore
from agentic_rl.rollout.trajectory import Group, Trajectory
from agentic_rl.skills import SkillBook
from agentic_rl.training.recipe import Credit

if TYPE_CHECKING:
    from agentic_rl.dialogue.chat_format import ChatFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOPSD:
    """Reward 1[won]; turn advantages reshaped by a self-teacher (method.md, section 3; arXiv 2608.05987)."""

    skills: SkillBook
    teacher_concurrency: int
    evidence_baseline: Literal["rescored", "sampled"]
    gamma: float = 0.95
    reshape_lambda: float = 0.5
    weight_bound: float = 0.2
    epsilon: float = 1e-4
    name: str = field(default="09-AgentOPSD", init=False)
    rollout_prefix: str = field(default="trajectory", init=False)
    checkpoint_word: str = field(default="step", init=False)
    sampled_name: str = field(default="action_tokens", init=False)

    def reward(self, trajectory: Trajectory) -> float:
        return float(trajectory.won)

    def credit(self, sampler: Sampler, chat: ChatFormat) -> AgentOPSDRule:
        teacher = SkillTeacher(
            sampler, chat, self.skills, baseline=self.evidence_baseline, concurrency=self.teacher_concurrency
        )
        return AgentOPSDRule(self, teacher)


@dataclass(frozen=True, slots=True)
class AgentOPSDRule:
    """Scores each trajectory as it ends, then weighs the turns of every group."""

    recipe: AgentOPSD
    teacher: SkillTeacher
    scores: dict[tuple[str, int], TeacherScore] = field(default_factory=dict)

    @property
    def observe(self) -> Callable[[Trajectory], Awaitable[None]]:
        return self._score

    async def _score(self, trajectory: Trajectory) -> None:
        self.scores[trajectory.group_id, trajectory.group_index] = await self.teacher.score(trajectory)

    def assign(self, groups: Sequence[Group]) -> Credit:
        recipe = self.recipe
        advantages, credits, evidence = {}, [], []
        for group in groups:
            keys = [(trajectory.group_id, trajectory.group_index) for trajectory in group.trajectories]
            evidence.append([self.scores[key].evidence for key in keys])
            credit = agent_opsd(
                [recipe.reward(trajectory) for trajectory in group.trajectories],
                evidence[-1],
                gamma=recipe.gamma,
                reshape_lambda=recipe.reshape_lambda,
                weight_bound=recipe.weight_bound,
                epsilon=recipe.epsilon,
            )
            advantages.update(zip(keys, credit.turn_advantage, strict=True))
            credits.append(credit)
        return Credit(advantages, self._metrics(groups, credits, evidence))
