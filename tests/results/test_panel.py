"""A panel depends on the games and the seed, on nothing else."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_rl.errors import ResultsError
from agentic_rl.results import choose_games, panel_hash


@dataclass(frozen=True)
class Named:
    game_id: str
    split: str


def games(count: int = 30) -> list[Named]:
    return [Named(f"{split}:task-{n}/trial", split) for split in ("valid_seen", "valid_unseen") for n in range(count)]


@given(st.randoms(use_true_random=False))
def test_the_order_in_which_games_are_found_does_not_matter(order: random.Random) -> None:
    shuffled = games()
    order.shuffle(shuffled)
    assert choose_games(shuffled, limit_per_split=5, seed=1) == choose_games(games(), limit_per_split=5, seed=1)


def test_no_limit_takes_every_game_sorted_by_id() -> None:
    assert [game.game_id for game in choose_games(games())] == sorted(game.game_id for game in games())


def test_a_limit_counts_for_each_split() -> None:
    chosen = choose_games(games(), limit_per_split=2, seed=42)
    assert [game.split for game in chosen] == ["valid_seen"] * 2 + ["valid_unseen"] * 2


def test_a_limit_above_the_number_of_games_takes_them_all() -> None:
    assert len(choose_games(games(3), limit_per_split=10)) == 6


def test_a_small_panel_is_part_of_a_larger_one() -> None:
    panels = [set(choose_games(games(), limit_per_split=limit, seed=3)) for limit in range(1, 31)]
    assert all(small < large for small, large in pairwise(panels))


def test_another_seed_chooses_other_games() -> None:
    assert choose_games(games(), limit_per_split=5, seed=1) != choose_games(games(), limit_per_split=5, seed=2)


def test_every_game_is_chosen_equally_often() -> None:
    times = dict.fromkeys(games(10), 0)
    for seed in range(400):
        for game in choose_games(games(10), limit_per_split=3, seed=seed):
            times[game] += 1
    # 120 expected, standard deviation 9.2; five of them either way.
    assert all(74 < count < 166 for count in times.values())


def test_a_game_that_stands_twice_is_refused() -> None:
    with pytest.raises(ResultsError, match="twice"):
        choose_games([*games(), games()[0]])


def test_the_hash_names_the_set_on_every_machine() -> None:
    assert panel_hash(["b", "a"]) == panel_hash(["a", "b"]) == "a76de9f2d561975f"
    assert panel_hash(["a"]) != panel_hash(["a", "b"])
