"""Generated households: every one can be won, no two are alike, and splits never meet."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import combinations, pairwise
from pathlib import Path
from statistics import mean

import pytest

from agentic_rl.errors import ConfigError
from agentic_rl.games import expert
from agentic_rl.games.expert import solve
from agentic_rl.games.generate import HOUSEHOLD_SPLITS, LEVELS, HouseholdEntry, household_games, parse_household
from agentic_rl.games.generate.layout import ROOM_NUMBERS, SEEN_LAYOUTS, UNSEEN_LAYOUTS, layout
from agentic_rl.games.interface import TASK_TYPES
from agentic_rl.games.simulator import Game, load_game

DIFFICULTIES = sorted(LEVELS)

FROZEN = "6dcdc66190a190d3ba358942f81cbb8271f55e11dfda53940d64a53611a9db81"
"""SHA-256 of the first twelve problems of every split and difficulty with seed 0.

Reports and the builtin model name households by split, difficulty and seed: a change here makes them other games.
"""


def play_to_the_end(game: Game, commands: Iterable[str]) -> list[bool]:
    """Carry out commands, each of them admissible, and say after which the game was won."""
    episode = game.episode()
    result = episode.reset()
    won = [result.won]
    for command in commands:
        assert command in result.admissible_actions
        result = episode.step(command)
        won.append(result.won)
    return won


def visible(game: Game) -> tuple[object, ...]:
    """All that can ever be seen of a game's start: the task, the room, and what lies where."""
    world = game.world
    room = [(receptacle.name, receptacle.openable, receptacle.place) for receptacle in world.receptacles]
    contents = [[(world.objects[o].name, world.objects[o].holds) for o in held] for held in world.start.contents]
    return game.start_text, str(room), str(contents), str(sorted(world.start.cool))


def room_of(entry: HouseholdEntry) -> str:
    """The number of the room a game is played in."""
    return entry.task.rpartition("-")[2]


def digest_of_the_first_games() -> str:
    digest = hashlib.sha256()
    for difficulty in DIFFICULTIES:
        for split in HOUSEHOLD_SPLITS:
            for entry in household_games(split, 12, difficulty, seed=0):
                digest.update(f"{entry.game_id}\n{entry.problem()}".encode())
    return digest.hexdigest()


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_two_hundred_games_a_difficulty_are_won_by_their_shortest_solution_and_no_two_are_the_same(
    difficulty: int,
) -> None:
    entries = [
        entry
        for split, count in (("train", 100), ("valid_seen", 50), ("valid_unseen", 50))
        for entry in household_games(split, count, difficulty, seed=11)
    ]
    games = [entry.load() for entry in entries]
    for game in games:
        solution = solve(game)
        assert solution is not None
        assert play_to_the_end(game, solution) == [False] * len(solution) + [True]
    assert len({visible(game) for game in games}) == len({entry.game_id for entry in entries}) == 200


def test_splits_share_no_game_whatever_the_seeds() -> None:
    seen: dict[str, set[tuple[object, ...]]] = {
        split: {visible(entry.load()) for seed in (0, 1) for entry in household_games(split, 150, 1, seed)}
        for split in HOUSEHOLD_SPLITS
    }
    for one, other in combinations(HOUSEHOLD_SPLITS, 2):
        assert not seen[one] & seen[other]


def test_no_unseen_room_has_the_receptacles_of_a_seen_room_of_any_difficulty() -> None:
    def receptacles(*, unseen: bool) -> set[tuple[str, ...]]:
        return {
            tuple(sorted(item.kind for item in layout(room, difficulty, index, unseen=unseen).receptacles))
            for room in ROOM_NUMBERS
            for difficulty in DIFFICULTIES
            for index in range(UNSEEN_LAYOUTS if unseen else SEEN_LAYOUTS)
        }

    assert not receptacles(unseen=True) & receptacles(unseen=False)


def test_valid_seen_plays_in_the_rooms_of_train_and_valid_unseen_in_none_of_them() -> None:
    def room(entry: HouseholdEntry) -> list[tuple[object, ...]]:
        return [(item.name, item.openable, item.place) for item in entry.load().world.receptacles]

    trained = {room_of(entry): entry for entry in household_games("train", 6_000, 1, seed=0)}
    seen = household_games("valid_seen", 240, 1, seed=9)
    assert mean(room_of(entry) in trained for entry in seen) > 0.98
    assert all(room(entry) == room(trained[room_of(entry)]) for entry in seen[:60] if room_of(entry) in trained)
    assert not trained.keys() & {room_of(entry) for entry in household_games("valid_unseen", 240, 1, seed=9)}


@pytest.mark.parametrize("split", HOUSEHOLD_SPLITS)
@pytest.mark.parametrize("count", [0, 1, 12, 20])
def test_a_panel_is_balanced_over_the_six_task_types(split: str, count: int) -> None:
    counts = Counter(entry.task_type for entry in household_games(split, count, 1, seed=4))
    assert counts.total() == count
    assert max(counts.values(), default=0) - min((counts[kind] for kind in TASK_TYPES), default=0) <= 1


def test_a_longer_panel_begins_with_the_shorter_one() -> None:
    assert household_games("train", 80, 2, seed=6)[:25] == household_games("train", 25, 2, seed=6)


def test_the_same_arguments_give_the_same_bytes_and_another_seed_other_games() -> None:
    def problems(seed: int) -> list[str]:
        return [entry.problem() for entry in household_games("train", 18, 3, seed)]

    assert problems(7) == problems(7)
    assert not set(problems(7)) & set(problems(8))


def test_the_first_games_are_the_ones_that_reports_speak_of() -> None:
    assert digest_of_the_first_games() == FROZEN


def test_another_process_with_another_hash_seed_draws_the_same_games() -> None:
    script = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import {Path(__file__).stem} as here;"
    finished = subprocess.run(
        [sys.executable, "-c", f"{script} print(here.digest_of_the_first_games())"],
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.strip() == FROZEN


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_a_household_has_the_size_of_its_difficulty(difficulty: int) -> None:
    size = LEVELS[difficulty]
    worlds = [entry.load().world for entry in household_games("train", 120, difficulty, seed=2)]
    for world in worlds:
        if size.receptacles is not None:
            assert len(world.receptacles) <= size.receptacles[1]
        if size.objects is not None:
            assert len(world.objects) <= size.objects[1]
    if difficulty == 1:
        assert min(len(world.receptacles) for world in worlds) >= 5


def test_every_difficulty_is_larger_and_more_shut_than_the_one_before() -> None:
    def averages(difficulty: int) -> tuple[float, float, float]:
        worlds = [entry.load().world for entry in household_games("train", 120, difficulty, seed=2)]
        return (
            mean(len(world.receptacles) for world in worlds),
            mean(len(world.objects) for world in worlds),
            mean(sum(receptacle.openable for receptacle in world.receptacles) for world in worlds),
        )

    sizes = [averages(difficulty) for difficulty in DIFFICULTIES]
    for smaller, larger in pairwise(sizes):
        assert all(low < high for low, high in zip(smaller, larger, strict=True))


def test_at_difficulty_1_what_the_task_needs_has_no_double_and_nearly_always_lies_in_sight() -> None:
    behind_doors = 0
    for entry in household_games("train", 240, 1, seed=5):
        world = entry.load().world
        wanted = world.goal.objects
        assert len(wanted) == (2 if entry.task_type == "pick_two_obj_and_place" else 1)
        behind_doors += any(
            receptacle.openable and wanted.intersection(contents)
            for receptacle, contents in zip(world.receptacles, world.start.contents, strict=True)
        )
    assert behind_doors <= 5


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_no_game_to_put_something_away_is_begun_already(difficulty: int) -> None:
    for entry in household_games("train", 120, difficulty, seed=5):
        if entry.task_type in ("pick_and_place_simple", "pick_two_obj_and_place"):
            world = entry.load().world
            assert all(not world.goal.objects.intersection(world.start.contents[r]) for r in world.goal.receptacles)


def test_entries_say_who_they_are() -> None:
    entry = household_games("valid_seen", 4, 2, seed=3)[3]
    assert re.fullmatch(
        r"valid_seen:pick_heat_then_place_in_recep-\w+-None-\w+-21\d{3}/trial_D2_S3_000003", entry.game_id
    )
    assert entry.location == "household:2 valid_seen 3 (seed 3)"
    assert entry.load().task.startswith("Your task is to: ")


def test_opening_a_game_solves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the expert is not needed to open a game")

    for name in ("solve", "solve_from"):
        monkeypatch.setattr(expert, name, refuse)
    for entry in household_games("train", 60, 5, seed=1):
        assert entry.open().reset().observation


def test_episodes_of_one_entry_are_independent() -> None:
    entry: HouseholdEntry = household_games("train", 1, 1, seed=1)[0]
    one, other = entry.open(), entry.open()
    moved = one.step(next(action for action in one.reset().admissible_actions if action.startswith("go to")))
    assert moved.observation.startswith("You arrive at")
    assert other.step("inventory").admissible_actions == entry.open().reset().admissible_actions


@pytest.mark.parametrize(("games", "difficulty"), [("household", 1), ("household:1", 1), ("household:5", 5)])
def test_the_games_flag_names_a_difficulty(games: str, difficulty: int) -> None:
    assert parse_household(games) == difficulty


@pytest.mark.parametrize("games", ["household:", "household:0", "household:6", "household:x", "households", "alfworld"])
def test_the_games_flag_refuses_anything_else(games: str) -> None:
    with pytest.raises(ConfigError, match="household:1 to household:5"):
        parse_household(games)


@pytest.mark.parametrize(
    ("split", "count", "difficulty", "seed", "fault"),
    [
        ("valid_train", 1, 1, 0, "valid_train"),
        ("train", -1, 1, 0, "count -1"),
        ("train", 1, 6, 0, "difficulty 6"),
        ("train", 1, 1, -2, "seed -2"),
    ],
)
def test_impossible_panels_are_refused(split: str, count: int, difficulty: int, seed: int, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        household_games(split, count, difficulty, seed)


@pytest.mark.slow
def test_households_use_only_names_that_the_real_games_show(full_root: Path) -> None:
    def names(games: Iterable[Game]) -> set[str]:
        shown: set[str] = set()
        for game in games:
            world = game.world
            shown.update(receptacle.name for receptacle in world.receptacles)
            shown.update(world.objects[o].name for contents in world.start.contents for o in contents)
        return shown

    real = names(load_game(file) for file in full_root.glob("json_2.1.1/train/*/*/game.tw-pddl"))
    made = names(
        entry.load()
        for difficulty in DIFFICULTIES
        for split in HOUSEHOLD_SPLITS
        for entry in household_games(split, 700, difficulty, seed=5)
    )
    assert made <= real
    assert len(made) > 0.95 * len(real)
