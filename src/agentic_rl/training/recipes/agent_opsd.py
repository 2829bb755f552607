"""Recipe 09, AgentOPSD: the outcome gives the direction, the same weights with skills give each turn its size."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from agentic_rl.credit import TurnCredit, agent_opsd, agent_opsd_metrics
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
    max_sequence_tokens: int | None = None
    retries: int = 2
    timeout_s: float | None = None
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
            sampler,
            chat,
            self.skills,
            baseline=self.evidence_baseline,
            concurrency=self.teacher_concurrency,
            max_sequence_tokens=self.max_sequence_tokens,
            retries=self.retries,
            timeout_s=self.timeout_s,
        )
        return AgentOPSDRule(self, teacher)


class AgentOPSDRule:
    """Scores each trajectory as it ends, then weighs the turns of every group."""

    def __init__(self, recipe: AgentOPSD, teacher: SkillTeacher) -> None:
        self._recipe = recipe
        self._teacher = teacher
        self._scores: dict[tuple[str, int], TeacherScore] = {}
        self._busy = BusyTime()

    @property
    def observe(self) -> Callable[[Trajectory], Awaitable[None]]:
        return self._score

    async def _score(self, trajectory: Trajectory) -> None:
        with self._busy:
            score = await self._teacher.score(trajectory)
        self._scores[trajectory.group_id, trajectory.group_index] = score

    def assign(self, groups: Sequence[Group]) -> Credit:
        recipe = self._recipe
        advantages: dict[tuple[str, int], NDArray[np.float64]] = {}
        credits: list[TurnCredit] = []
        evidence: list[list[NDArray[np.float64]]] = []
        for group in groups:
            keys = [(trajectory.group_id, trajectory.group_index) for trajectory in group.trajectories]
            evidence.append([self._scores[key].evidence for key in keys])
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
        sequence = [float(a) for credit in credits for a in credit.sequence_advantage]
        scores = [self._scores[key] for key in advantages]
        return Credit(
            advantages,
            {
                "advantage/sequence_std": float(np.std(sequence)) if sequence else 0.0,
                **agent_opsd_metrics(credits, evidence),
                "requests/teacher_count": sum(score.requests for score in scores),
                "tokens/teacher_scored": sum(score.tokens_scored for score in scores),
                "requests/baseline_count": sum(score.baseline_requests for score in scores),
                "tokens/baseline_scored": sum(score.baseline_tokens for score in scores),
                "tokens/teacher_action": sum(score.action_tokens for score in scores),
                "time/teacher_seconds": self._busy.seconds,
            },
        )


class BusyTime:
    """Seconds in which at least one of several overlapping tasks was under way."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._running = 0
        self._since = 0.0

    def __enter__(self) -> None:
        if self._running == 0:
            self._since = time.perf_counter()
        self._running += 1

    def __exit__(self, *failure: object) -> None:
        self._running -= 1
        if self._running == 0:
            self.seconds += time.perf_counter() - self._since
