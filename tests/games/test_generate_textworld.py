"""TextWorld plays generated households exactly as the simulator does."""

from __future__ import annotations

import importlib.util
import random

import pytest

from agentic_rl.games.expert import solve
from agentic_rl.games.generate import HouseholdEntry, household_games
from agentic_rl.games.interface import StepResult

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("textworld") is None or importlib.util.find_spec("alfworld") is None,
    reason="TextWorld and alfworld are not installed",
)

FAST = [
    household_games("valid_unseen", 6, difficulty, seed=20)[kind] for kind, difficulty in enumerate((1, 2, 1, 2, 1, 1))
]
SLOW = [
    household_games(split, 6, difficulty, seed=21)[kind]
    for kind in range(6)
    for split, difficulty in (("train", 1 + kind % 5), ("valid_seen", 1 + (kind + 2) % 5), ("valid_unseen", 5))
]


def compare(entry: HouseholdEntry, *, wandering: int) -> None:
    """Play one game on both engines: its solution first, and then so many commands at random."""
    solution = solve(entry.load())
    assert solution is not None
    ours, reference = entry.open(), entry.open("textworld")
    try:
        both(ours.reset(), reference.reset())
        results = [both(ours.step(command), reference.step(command)) for command in solution]
        assert [result.won for result in results] == [False] * (len(solution) - 1) + [True]
        rng = random.Random(entry.game_id)
        result = results[-1]
        for _ in range(wandering):
            command = some_command(rng, result)
            result = both(ours.step(command), reference.step(command))
    finally:
        reference.close()


def both(ours: StepResult, reference: StepResult) -> StepResult:
    assert ours == reference
    return ours


def some_command(rng: random.Random, result: StepResult) -> str:
    """A verb first and then one of its commands, so that the rare verbs are not drowned by `go to`."""
    verbs = sorted({action.split()[0] for action in result.admissible_actions})
    verb = rng.choice(verbs)
    return rng.choice([action for action in result.admissible_actions if action.split()[0] == verb])


@pytest.mark.parametrize("entry", FAST, ids=lambda entry: entry.location)
def test_both_engines_agree_step_by_step(entry: HouseholdEntry) -> None:
    compare(entry, wandering=4)


@pytest.mark.slow
@pytest.mark.parametrize("entry", SLOW, ids=lambda entry: entry.location)
def test_both_engines_agree_step_by_step_on_more_games(entry: HouseholdEntry) -> None:
    compare(entry, wandering=30)


def test_the_games_compared_are_24_of_all_types_and_difficulties() -> None:
    entries = FAST + SLOW
    assert len({entry.game_id for entry in entries}) == 24
    assert len({entry.task_type for entry in entries}) == 6
    assert {entry.difficulty for entry in entries} == {1, 2, 3, 4, 5}
