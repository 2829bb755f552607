"""Evidence against labels: what is compared with what, and that a teacher told nothing knows nothing."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from walkthrough import Walkthrough

from agentic_rl.dialogue import ChatFormat
from agentic_rl.evaluation.teacher.config import TeacherConfig
from agentic_rl.evaluation.teacher.distance import LOST, Step
from agentic_rl.evaluation.teacher.score import Scored, play_and_score
from agentic_rl.evaluation.teacher.worth import ScoredTurn, turns_of, worth
from agentic_rl.games.interface import GameEntry
from agentic_rl.policy.protocol import FloatArray
from agentic_rl.results import rank_correlation, roc_auc, roc_auc_interval
from agentic_rl.rollout import SkillTeacher
from agentic_rl.skills import SkillBook, builtin_skills_dir

SKILLS = SkillBook.load(builtin_skills_dir())


@dataclass
class Moody(Walkthrough):
    """Scores a token by all that stands before it, so that any other prompt gives other log-probs."""

    async def score(self, tokens: Sequence[int]) -> FloatArray:
        await asyncio.sleep(0)
        state, logprobs = hashlib.blake2b(digest_size=8), np.zeros(len(tokens))
        for i, token in enumerate(tokens):
            state.update(int(token).to_bytes(8, "big"))
            logprobs[i] = -int.from_bytes(state.digest()[:4], "big") / 2**32 if i else 0.0
        return logprobs


def turn(
    evidence: float, before: int = 5, after: int = 5, *, valid: bool = True, searches: bool = False, game: str = "a"
) -> ScoredTurn:
    return ScoredTurn(
        game_id=game,
        task_type="pick_and_place_simple" if game == "a" else "look_at_obj_in_light",
        branch=0,
        step=1,
        action="look",
        valid=valid,
        searches=searches,
        distance=Step(before, after),
        tokens=7,
        with_skills=evidence,
        without=0.0,
    )


TURNS = [
    turn(2.0, 5, 4),
    turn(-1.0, 4, 3, game="b"),
    turn(0.5),
    turn(-2.0, searches=True),
    turn(-3.0, 5, 6, game="b"),
    turn(1.0, valid=False, game="b"),
    turn(-4.0, 5, LOST),
    turn(9.0, LOST, LOST),
]


def told(one: ScoredTurn) -> float:
    return one.with_skills


def scored(sampler: Walkthrough, config: TeacherConfig) -> list[Scored]:
    return asyncio.run(play_and_score(sampler.games, sampler, sampler.chat, config, SKILLS))


@pytest.fixture
def small() -> TeacherConfig:
    return TeacherConfig(group_size=2, max_turns=30, max_action_tokens=80, teacher_concurrency=2)


def test_turns_that_shorten_the_distance_are_compared_with_the_others() -> None:
    found = worth(TURNS, told, seed=3).nearer
    others = [0.5, -2.0, -3.0, 1.0, -4.0]
    assert (found.good, found.others) == (2, 5)
    assert (found.good_mean, found.others_mean) == (0.5, np.mean(others))
    assert found.auc == roc_auc([2.0, -1.0], others) == 0.8
    labels = [True, True] + [False] * 5
    assert found.interval == roc_auc_interval([2.0, -1.0, *others], labels, ["a", "b", "a", "a", "b", "b", "a"], seed=3)


def test_the_other_labels() -> None:
    found = worth(TURNS, told, seed=0)
    assert found.nearer_of_valid.auc == roc_auc([2.0, -1.0], [0.5, -2.0, -3.0, -4.0])
    assert found.nearer_or_searching.auc == roc_auc([2.0, -1.0, -2.0], [0.5, -3.0, 1.0, -4.0])
    assert (found.valid.good, found.valid.others) == (7, 1)
    assert found.valid.auc == roc_auc([2.0, -1.0, 0.5, -2.0, -3.0, -4.0, 9.0], [1.0])
    assert found.largest == 9.0


def test_the_correlation_is_with_how_far_the_distance_falls() -> None:
    falls = [1, 1, 0, 0, -1, 0, 5 - LOST]
    assert worth(TURNS, told, seed=0).correlation == rank_correlation([2.0, -1.0, 0.5, -2.0, -3.0, 1.0, -4.0], falls)


def test_each_task_type_has_a_contrast_of_its_own_and_one_that_was_not_played_has_none() -> None:
    by_task_type = worth(TURNS, told, seed=0).by_task_type
    assert {task: (one.good, one.others) for task, one in by_task_type.items()} == {
        "pick_and_place_simple": (1, 3),
        "look_at_obj_in_light": (1, 2),
    }


@pytest.mark.parametrize("turns", [[], [turn(1.0, 5, 4)], [turn(1.0)]])
def test_where_one_kind_is_missing_there_is_no_area(turns: list[ScoredTurn]) -> None:
    found = worth(turns, told, seed=0)
    assert found.nearer.auc is None
    assert found.nearer.interval is None
    assert (found.nearer.good_mean is None) == (found.nearer.good == 0)
    assert (found.nearer.others_mean is None) == (found.nearer.others == 0)


def test_told_nothing_the_evidence_is_exactly_zero_and_tells_nothing(
    chat: ChatFormat, games: list[GameEntry], small: TeacherConfig
) -> None:
    sampler = Moody(chat, games, stumbles=[games[0].game_id])
    turns = turns_of(scored(sampler, small))
    assert all(one.without == 0.0 for one in turns)
    assert all(one.with_skills != 0.0 for one in turns)
    untold = worth(turns, lambda one: one.without, seed=0)
    assert untold.nearer.auc == 0.5
    assert untold.nearer.interval == (0.5, 0.5)
    assert untold.largest == 0.0


def test_the_evidence_is_that_of_recipe_09s_teacher(
    chat: ChatFormat, games: list[GameEntry], small: TeacherConfig
) -> None:
    sampler = Moody(chat, games[:2])
    for one in scored(sampler, small):
        teacher = SkillTeacher(sampler, chat, SKILLS, baseline="rescored", concurrency=1)
        assert one.with_skills.tolist() == asyncio.run(teacher.score(one.trajectory)).evidence.tolist()


def test_every_trajectory_is_there_once_in_a_fixed_order(
    chat: ChatFormat, games: list[GameEntry], small: TeacherConfig
) -> None:
    found = scored(Moody(chat, games), small)
    wanted = [(game.game_id, branch) for game in sorted(games, key=lambda game: game.game_id) for branch in (0, 1)]
    assert [(one.trajectory.game.game_id, one.trajectory.group_index) for one in found] == wanted
    alone = scored(Moody(chat, games), replace(small, live_trajectories=1, teacher_concurrency=1))
    assert turns_of(found) == turns_of(alone)


def test_a_turn_knows_what_was_done(chat: ChatFormat, games: list[GameEntry], small: TeacherConfig) -> None:
    game = games[0]
    (place, other) = [a for a in game.open().reset().admissible_actions if a.startswith("go to ")][:2]
    plan = ["look", place, "go to bed 99", other, place, other]
    sampler = Moody(chat, [game], plans={game.game_id: plan})
    turns = turns_of(scored(sampler, replace(small, group_size=1, max_turns=len(plan))))
    assert [one.action for one in turns] == plan
    assert [one.step for one in turns] == [1, 2, 3, 4, 5, 6]
    assert [one.valid for one in turns] == [True, True, False, True, True, True]
    assert [one.searches for one in turns] == [False, True, False, True, False, False]
    assert {(one.game_id, one.task_type) for one in turns} == {(game.game_id, game.task_type)}
    assert all(one.tokens > 0 for one in turns)


def test_what_cannot_be_scored_is_missing_and_costs_no_other(
    chat: ChatFormat, games: list[GameEntry], small: TeacherConfig
) -> None:
    class Broken(Moody):
        async def score(self, tokens: Sequence[int]) -> FloatArray:
            if broken in self.chat.decode(tokens):
                raise ConnectionError("the line went dead")
            return await super().score(tokens)

    broken = games[1].open().reset().observation
    found = scored(Broken(chat, games), replace(small, sample_retries=0))
    assert {one.trajectory.game.game_id for one in found} == {game.game_id for game in games} - {games[1].game_id}
