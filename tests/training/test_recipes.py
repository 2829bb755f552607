"""The recipes: what a trajectory earns, and what its turns are found worth."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from agentic_rl.credit import agent_opsd
from agentic_rl.games.generate import household_games
from agentic_rl.policy.local import open_local_sampler
from agentic_rl.rollout import RolloutConfig, SkillTeacher, run_groups
from agentic_rl.rollout.trajectory import Group, StopReason
from agentic_rl.skills import SkillBook, builtin_skills_dir
from agentic_rl.training.recipes import RECIPES, AgentOPSD, GroupMean
from agentic_rl.training.recipes.agent_opsd import BusyTime


@pytest.fixture(scope="module")
def played() -> tuple[Group, dict[str, float], list[np.ndarray], Sequence[np.ndarray]]:
    """One group of the builtin model's own, won by its first branch, and what recipe 09 makes of it."""
    from agentic_rl.dialogue import ChatFormat

    sampler = open_local_sampler("builtin")
    chat = ChatFormat.from_tokenizer(sampler.tokenizer)
    skills = SkillBook.load(builtin_skills_dir())
    config = RolloutConfig(group_size=3, max_turns=3, max_trajectory_tokens=2_000, max_turn_tokens=20)
    recipe = AgentOPSD(skills=skills, teacher_concurrency=2, evidence_baseline="rescored")

    async def play() -> tuple[Group, dict[str, float], list[np.ndarray], Sequence[np.ndarray]]:
        rule = recipe.credit(sampler, chat)
        entries = household_games("train", 1, 1, 0)
        rollout = await run_groups(entries, sampler, chat, config, update=1, on_trajectory=rule.observe)
        first, *rest = rollout.groups[0].trajectories
        group = replace(rollout.groups[0], trajectories=(replace(first, stop_reason=StopReason.WON), *rest))
        credit = rule.assign([group])
        teacher = SkillTeacher(sampler, chat, skills, baseline="rescored", concurrency=1)
        evidence = [(await teacher.score(trajectory)).evidence for trajectory in group.trajectories]
        advantages = [credit.turn_advantages[t.group_id, t.group_index] for t in group.trajectories]
        await sampler.aclose()
        return group, dict(credit.metrics), advantages, evidence

    return asyncio.run(play())


def test_the_table_names_both_published_recipes() -> None:
    assert set(RECIPES) == {"08-alfworld", "09-AgentOPSD"}


def test_recipe_08_rewards_winning_and_charges_for_invalid_actions(
    played: tuple[Group, object, object, object],
) -> None:
    won, lost, _ = played[0].trajectories
    recipe = GroupMean()
    assert recipe.reward(won) == pytest.approx(1 - 0.1 * won.invalid_action_count)
    assert recipe.reward(lost) == pytest.approx(-0.1 * lost.invalid_action_count)


def test_recipe_08_gives_every_turn_its_trajectorys_advantage(played: tuple[Group, object, object, object]) -> None:
    group = played[0]
    recipe = GroupMean()
    rewards = np.array([recipe.reward(t) for t in group.trajectories])
    credit = recipe.credit(None, None).assign([group])  # type: ignore[arg-type]
    for trajectory, advantage in zip(group.trajectories, rewards - rewards.mean(), strict=True):
        turns = credit.turn_advantages[trajectory.group_id, trajectory.group_index]
        assert turns == pytest.approx([advantage] * len(trajectory.turns))


def test_recipe_09_reshapes_the_outcome_with_the_teachers_evidence(
    played: tuple[Group, dict[str, float], list[np.ndarray], Sequence[np.ndarray]],
) -> None:
    _, metrics, advantages, evidence = played
    expected = agent_opsd([1.0, 0.0, 0.0], list(evidence))
    for found, wanted in zip(advantages, expected.turn_advantage, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert metrics["requests/teacher_count"] == 3
    assert metrics["tokens/teacher_action"] > 0
    assert metrics["time/teacher_seconds"] > 0
    assert metrics["advantage/sequence_std"] == pytest.approx(1, abs=1e-3)
    assert {"opsd/evidence_mean", "opsd/weight_min", "opsd/adv_multiplier_max"} <= set(metrics)


def test_overlapping_work_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 13.0, 20.0, 21.0])
    monkeypatch.setattr("agentic_rl.training.recipes.agent_opsd.time.perf_counter", lambda: next(now))
    busy = BusyTime()
    with busy, busy:
        pass
    with busy:
        pass
    assert busy.seconds == 4.0
