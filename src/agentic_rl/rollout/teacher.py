"""The self-teacher: the weights that sampled a trajectory read it again, told the skills (AgentOPSD, 2608.05987).

It never generates. How much likelier it finds the very same tokens of a turn is the turn's evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from agentic_rl.dialogue.prompts import with_skills
from agentic_rl.errors import BackendError, ConfigError
from agentic_rl.policy.protocol import FloatArray, Sampler
from agentic_rl.rollout.attempts import with_retries
from agentic_rl.rollout.trajectory import Trajectory
from agentic_rl.skills import SkillBook

if TYPE_CHECKING:
    from agentic_rl.dialogue import ChatFormat

type EvidenceBaseline = Literal["rescored", "sampled"]


@dataclass(frozen=True, slots=True)
class TeacherScore:
    """The teacher's word on one trajectory.

    Attributes
    ----------
    evidence
        Shape (turns,): Σ over the turn's sampled tokens of (teacher − student) log-prob.
    tokens_scored, action_tokens, requests
        Tokens the teacher read, how many of them were sampled ones, and the teacher's requests.
    baseline_tokens, baseline_requests
        What reading the student's own sequence again took, if that was the baseline.
    """

    evidence: NDArray[np.float64] = field(repr=False)
    tokens_scored: int
    action_tokens: int
    requests: int
    baseline_tokens: int
    baseline_requests: int


class SkillTeacher:
    """Scores trajectories, a bounded number of requests at a time.

    Parameters
    ----------
    sampler
        The snapshot that sampled the trajectories.
    skills
        What the teacher is told.
    baseline
        Where the student's log-probs come from: `rescored` on the teacher's own path, so that nothing but the skills
        makes the difference, or `sampled`, which costs no second request.
    concurrency
        Scoring requests at a time, at most.
    max_sequence_tokens
        The longest sequence that the backend takes; None if it names no limit.
    retries, timeout_s
        Tries after a failed request; how long one may take.
    """

    def __init__(
        self,
        sampler: Sampler,
        chat: ChatFormat,
        skills: SkillBook,
        *,
        baseline: EvidenceBaseline,
        concurrency: int,
        max_sequence_tokens: int | None = None,
        retries: int = 2,
        timeout_s: float | None = None,
    ) -> None:
        if concurrency < 1:
            raise ConfigError(f"--teacher-concurrency must be at least 1, not {concurrency}")
        self._sampler = sampler
        self._chat = chat
        self._skills = skills
        self._baseline = baseline
        self._slots = asyncio.Semaphore(concurrency)
        self._max_sequence_tokens = max_sequence_tokens
        self._retries = retries
        self._timeout_s = timeout_s

    async def score(self, trajectory: Trajectory) -> TeacherScore:
        """Evidence of every turn of a trajectory.

        Raises
        ------
        SkillsError
            The trajectory's task type is unknown to the skills.
        ConfigError
            With the skills in front the trajectory is longer than the backend takes.
        BackendError
            Scoring failed.
        """
        system = with_skills(trajectory.system, self._skills.for_task(trajectory.game.task_type))
        prompt = self._chat.render_first(system, trajectory.user)
        student = trajectory.tokens.tolist()
        teacher = [*prompt, *student[trajectory.first_prompt_length :]]
        spans = teacher_spans(trajectory, prompt_length=len(prompt))
        _check_spans(trajectory, student, teacher, spans)
        self._check_length(teacher, trajectory)

        what = f"{trajectory.game.game_id}, branch {trajectory.group_index}"
        rescored = self._baseline == "rescored"
        baseline_requests = int(rescored and teacher != student)
        if baseline_requests:
            teacher_logprobs, student_logprobs = await asyncio.gather(
                self._request(teacher, f"the teacher's scoring of {what}"),
                self._request(student, f"scoring {what} again"),
            )
        else:
            teacher_logprobs = student_logprobs = await self._request(teacher, f"the teacher's scoring of {what}")
        evidence = np.array(
            [
                np.sum(teacher_logprobs[start:end])
                - np.sum(student_logprobs[turn.start : turn.end] if rescored else turn.logprobs)
                for turn, (start, end) in zip(trajectory.turns, spans, strict=True)
            ],
            dtype=np.float64,
        )
        return TeacherScore(
            evidence=evidence,
            tokens_scored=len(teacher),
            action_tokens=sum(turn.end - turn.start for turn in trajectory.turns),
            requests=1,
            baseline_tokens=len(student) * baseline_requests,
            baseline_requests=baseline_requests,
        )

    async def _request(self, tokens: Sequence[int], what: str) -> FloatArray:
        async def attempt() -> FloatArray:
            logprobs = np.asarray(await self._sampler.score(tokens), dtype=np.float64)
            if logprobs.shape != (len(tokens),):
                raise BackendError(f"{logprobs.shape} log-probs came back for {len(tokens)} tokens")
            if not np.isfinite(logprobs).all():
                raise BackendError("a log-prob that is not a finite number came back")
            return logprobs

        async with self._slots:
            return await with_retries(attempt, what=what, retries=self._retries, timeout_s=self._timeout_s)

    def _check_length(self, teacher: Sequence[int], trajectory: Trajectory) -> None:
        if self._max_sequence_tokens is not None and len(teacher) > self._max_sequence_tokens:
            raise ConfigError(
                f"with the skills in front, a trajectory of {trajectory.game.game_id} has {len(teacher)} tokens and "
                f"the model reads {self._max_sequence_tokens}",
                hint="Lower --max-trajectory-tokens, or shorten the texts of --skills-dir.",
            )


def teacher_spans(trajectory: Trajectory, *, prompt_length: int) -> list[tuple[int, int]]:
    """Where each turn's sampled tokens stand behind a first prompt of another length."""
    shift = prompt_length - trajectory.first_prompt_length
    return [(turn.start + shift, turn.end + shift) for turn in trajectory.turns]


def _check_spans(
    trajectory: Trajectory, student: Sequence[int], teacher: Sequence[int], spans: Sequence[tuple[int, int]]
) -> None:
    """Every action span is found again, exactly, in the teacher's sequence."""
    for turn, (start, end) in zip(trajectory.turns, spans, strict=True):
        if teacher[start:end] != student[turn.start : turn.end]:
            raise RuntimeError(f"turn {turn.step} of {trajectory.group_id} is not where the teacher looks for it")
