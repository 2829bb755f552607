"""Every request has a seed of its own, which depends on what is asked and on nothing else."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from agentic_rl.rollout import derive_seed


@given(st.integers(), st.integers(0), st.text(), st.integers(-1, 64), st.integers(0, 200))
def test_a_seed_has_31_bits(run_seed: int, update: int, game_id: str, branch: int, turn: int) -> None:
    assert 0 <= derive_seed(run_seed, update=update, game_id=game_id, branch=branch, turn=turn) < 2**31


def test_seeds_differ_by_run_update_game_branch_and_turn() -> None:
    coordinates = list(product((0, 42), (1, 2, 12), ("train:a/1", "train:a/11"), (-1, 0, 1, 11), (0, 1, 2, 11)))
    seeds = {derive_seed(r, update=u, game_id=g, branch=b, turn=t) for r, u, g, b, t in coordinates}
    assert len(seeds) == len(coordinates)


def test_seeds_are_the_same_on_every_machine_and_in_every_version() -> None:
    assert derive_seed(42, update=1, game_id="train:a/1", branch=0, turn=2) == 1454280302
