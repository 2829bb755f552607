"""The self-teacher reads the very same tokens with the skills in front, and says what each turn is evidence of."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scripted_sampler import ScriptedSampler, expert

from agentic_rl.dialogue import ChatFormat, with_skills
from agentic_rl.errors import BackendError, ConfigError, SkillsError
from agentic_rl.games.interface import TASK_TYPES, GameEntry
from agentic_rl.policy.protocol import FloatArray
from agentic_rl.rollout import RolloutConfig, SkillTeacher, Trajectory, attempts, run_groups
from agentic_rl.rollout.teacher import EvidenceBaseline
from agentic_rl.skills import SkillBook, builtin_skills_dir

SKILLS = SkillBook.load(builtin_skills_dir())
EMPTY = SkillBook(Path("nowhere"), dict.fromkeys(TASK_TYPES, ""))


@pytest.fixture
def played(games: list[GameEntry], chat: ChatFormat, config: RolloutConfig) -> list[Trajectory]:
    sampler = ScriptedSampler(chat, expert(games))
    rollout = asyncio.run(run_groups(games, sampler, chat, replace(config, group_size=2), update=1))
    return [trajectory for group in rollout.groups for trajectory in group.trajectories]


def teacher(
    sampler: ScriptedSampler, skills: SkillBook, baseline: EvidenceBaseline = "rescored", **options: int
) -> SkillTeacher:
    return SkillTeacher(sampler, sampler.chat, skills, baseline=baseline, **{"concurrency": 2, **options})


def test_an_empty_skill_gives_evidence_of_exactly_zero(played: list[Trajectory], chat: ChatFormat) -> None:
    for trajectory in played:
        score = asyncio.run(teacher(ScriptedSampler(chat), EMPTY).score(trajectory))
        assert score.evidence.shape == (len(trajectory.turns),)
        assert not score.evidence.any()


def test_the_teacher_reads_the_student_s_own_tokens_behind_the_skills(
    played: list[Trajectory], chat: ChatFormat
) -> None:
    trajectory = played[0]
    sampler = ScriptedSampler(chat)
    asyncio.run(teacher(sampler, SKILLS).score(trajectory))
    told, untold = sampler.scored
    skills = SKILLS.for_task(trajectory.game.task_type)
    prompt = chat.render_first(with_skills(trajectory.system, skills), trajectory.user)
    assert list(told) == [*prompt, *trajectory.tokens[trajectory.first_prompt_length :]]
    assert list(untold) == trajectory.tokens.tolist()
    assert skills in chat.decode(told)


@pytest.mark.parametrize("baseline", ["rescored", "sampled"])
def test_evidence_is_the_sum_over_a_turn_of_teacher_minus_student(
    played: list[Trajectory], chat: ChatFormat, baseline: EvidenceBaseline
) -> None:
    trajectory = played[0]
    sampler = ScriptedSampler(chat)
    score = asyncio.run(teacher(sampler, SKILLS, baseline).score(trajectory))
    told = asyncio.run(sampler.score(sampler.scored[0]))
    untold = asyncio.run(sampler.score(trajectory.tokens.tolist()))
    shift = len(told) - len(untold)
    for turn, evidence in zip(trajectory.turns, score.evidence, strict=True):
        student = untold[turn.start : turn.end] if baseline == "rescored" else turn.logprobs
        expected = sum(told[turn.start + shift + i] - student[i] for i in range(turn.end - turn.start))
        assert evidence == pytest.approx(expected, abs=1e-12)
        assert evidence != 0.0


def test_costs_are_counted_per_side(played: list[Trajectory], chat: ChatFormat) -> None:
    trajectory = played[0]
    sampler = ScriptedSampler(chat)
    rescored = asyncio.run(teacher(sampler, SKILLS, "rescored").score(trajectory))
    sampled = asyncio.run(teacher(sampler, SKILLS, "sampled").score(trajectory))
    assert (rescored.requests, rescored.baseline_requests) == (1, 1)
    assert (sampled.requests, sampled.baseline_requests) == (1, 0)
    assert len(sampler.scored) == 3
    assert rescored.tokens_scored == sampled.tokens_scored == len(sampler.scored[0]) > len(trajectory.tokens)
    assert (rescored.baseline_tokens, sampled.baseline_tokens) == (len(trajectory.tokens), 0)
    assert rescored.action_tokens == sum(turn.end - turn.start for turn in trajectory.turns)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_requests_are_under_way_than_allowed(
    played: list[Trajectory], chat: ChatFormat, concurrency: int
) -> None:
    sampler = ScriptedSampler(chat)
    scorer = teacher(sampler, SKILLS, concurrency=concurrency)

    async def score_all() -> None:
        await asyncio.gather(*(scorer.score(trajectory) for trajectory in played))

    asyncio.run(score_all())
    assert sampler.most_in_flight == concurrency
    assert len(sampler.scored) == 2 * len(played)


def test_a_trajectory_without_turns_or_without_words_has_no_evidence(
    played: list[Trajectory], chat: ChatFormat
) -> None:
    trajectory = played[0]
    first = trajectory.turns[0]
    unplayed = replace(trajectory, turns=(), tokens=trajectory.tokens[: first.start])
    silent_turn = replace(first, end=first.start, logprobs=np.zeros(0))
    silent = replace(trajectory, turns=(silent_turn,), tokens=trajectory.tokens[: first.start])
    scorer = teacher(ScriptedSampler(chat), SKILLS)
    assert asyncio.run(scorer.score(unplayed)).evidence.shape == (0,)
    assert asyncio.run(scorer.score(silent)).evidence.tolist() == [0.0]


def test_a_failed_request_is_tried_again_and_then_fails_its_trajectory(
    played: list[Trajectory], chat: ChatFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "FIRST_PAUSE_S", 0.0)

    class Flaky(ScriptedSampler):
        failures = 1

        async def score(self, tokens: object) -> FloatArray:
            if self.failures:
                self.failures -= 1
                raise ConnectionResetError("the line went dead")
            return await super().score(tokens)  # type: ignore[arg-type]

    scorer = teacher(Flaky(chat), SKILLS, retries=1)
    assert asyncio.run(scorer.score(played[0])).evidence.any()
    broken = Flaky(chat)
    broken.failures = 100
    with pytest.raises(BackendError, match=r"teacher's scoring of train:.*branch 0 failed after 2 tries"):
        asyncio.run(teacher(broken, SKILLS, "sampled", retries=1).score(played[0]))


@pytest.mark.parametrize("answer", [np.zeros(3), np.full(100_000, np.nan)])
def test_scores_of_the_wrong_shape_or_not_finite_are_refused(
    played: list[Trajectory], chat: ChatFormat, answer: FloatArray
) -> None:
    class Wrong(ScriptedSampler):
        async def score(self, tokens: object) -> FloatArray:
            return answer if len(answer) == 3 else answer[: len(tokens)]  # type: ignore[arg-type]

    with pytest.raises(BackendError, match="log-prob"):
        asyncio.run(teacher(Wrong(chat), SKILLS, retries=0).score(played[0]))


def test_a_sequence_longer_than_the_model_reads_names_both_flags(played: list[Trajectory], chat: ChatFormat) -> None:
    limit = len(played[0].tokens) + 1
    with pytest.raises(ConfigError, match=r"--max-trajectory-tokens.*--skills-dir"):
        asyncio.run(teacher(ScriptedSampler(chat), SKILLS, max_sequence_tokens=limit).score(played[0]))


def test_an_unknown_task_type_is_an_error(played: list[Trajectory], chat: ChatFormat) -> None:
    with pytest.raises(SkillsError, match="no skill for task type"):
        asyncio.run(teacher(ScriptedSampler(chat), SkillBook(Path("nowhere"), {})).score(played[0]))


def test_each_trajectory_is_scored_as_soon_as_it_ends(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    """The teacher has scored the first trajectory before the last one is sampled to its end."""
    sampler = ScriptedSampler(chat, expert(games))
    scorer = teacher(sampler, SKILLS, "sampled")
    scored_at: list[int] = []

    async def observe(trajectory: Trajectory) -> None:
        await scorer.score(trajectory)
        scored_at.append(len(sampler.requests))

    asyncio.run(run_groups(games, sampler, chat, replace(config, max_live=2), update=1, on_trajectory=observe))
    assert len(scored_at) == len(games) * config.group_size
    assert scored_at[0] < len(sampler.requests) / 2
