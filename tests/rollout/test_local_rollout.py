"""The shipped model on the local backend plays and is scored by itself: the whole room at work, nothing scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from agentic_rl.dialogue import ChatFormat
from agentic_rl.games.interface import TASK_TYPES, GameEntry
from agentic_rl.policy import Sampler, open_sampler
from agentic_rl.rollout import RolloutConfig, SkillTeacher, TeacherScore, Trajectory, run_groups
from agentic_rl.skills import SkillBook, builtin_skills_dir

CONFIG = RolloutConfig(group_size=3, max_turns=4, max_trajectory_tokens=1500, max_turn_tokens=16, seed=5)


@pytest.fixture(scope="module")
def sampler() -> Iterator[Sampler]:
    pytest.importorskip("torch")
    sampler = open_sampler("local", "builtin", device="cpu")
    yield sampler
    asyncio.run(sampler.aclose())


def played(sampler: Sampler, chat: ChatFormat, games: list[GameEntry]) -> list[Trajectory]:
    rollout = asyncio.run(run_groups(games, sampler, chat, CONFIG, update=1))
    return [trajectory for group in rollout.groups for trajectory in group.trajectories]


@pytest.fixture(scope="module")
def trajectories(sampler: Sampler, chat: ChatFormat, games: list[GameEntry]) -> list[Trajectory]:
    return played(sampler, chat, games[:2])


def test_the_same_seed_plays_the_same_trajectories_and_branches_differ(
    sampler: Sampler, chat: ChatFormat, games: list[GameEntry], trajectories: list[Trajectory]
) -> None:
    again = played(sampler, chat, games[:2])
    assert all(np.array_equal(a.tokens, b.tokens) for a, b in zip(trajectories, again, strict=True))
    assert len({tuple(trajectory.tokens.tolist()) for trajectory in trajectories}) > 2


def test_scoring_finds_the_log_probs_of_sampling_again(sampler: Sampler, trajectories: list[Trajectory]) -> None:
    for trajectory in trajectories:
        scores = asyncio.run(sampler.score(trajectory.tokens.tolist()))
        for turn in trajectory.turns:
            np.testing.assert_allclose(scores[turn.start : turn.end], turn.logprobs, atol=1e-4)


def test_skills_are_evidence_and_no_skills_are_none(
    sampler: Sampler, chat: ChatFormat, trajectories: list[Trajectory]
) -> None:
    def score(skills: SkillBook) -> list[TeacherScore]:
        teacher = SkillTeacher(sampler, chat, skills, baseline="rescored", concurrency=4)

        async def score_all() -> list[TeacherScore]:
            return await asyncio.gather(*map(teacher.score, trajectories))

        return asyncio.run(score_all())

    empty = SkillBook(Path("nowhere"), dict.fromkeys(TASK_TYPES, ""))
    assert all(not score.evidence.any() for score in score(empty))
    assert all(score.evidence.any() for score in score(SkillBook.load(builtin_skills_dir())))
