"""The intervals against published values and against what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_rl.results import mcnemar_exact, paired_bootstrap, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Newcombe 1998, table I, method 3 (Wilson without continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_rate_and_mirrors(case: tuple[int, int]) -> None:
    successes, trials = case
    low, high = wilson(successes, trials)
    assert 0 <= low <= (successes / trials if trials else 0.5) <= high <= 1
    assert wilson(trials - successes, trials) == pytest.approx((1 - high, 1 - low))


def test_wilson_knows_nothing_without_trials() -> None:
    assert wilson(0, 0) == (0, 1)


def test_wilson_refuses_more_successes_than_trials() -> None:
    with pytest.raises(ValueError, match="3 successes in 2 trials"):
        wilson(3, 2)


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 2 / 32), (6, 2, 2 * (1 + 8 + 28) / 256), (3, 3, 1.0), (10, 1, 2 * 12 / 2048)],
)
def test_mcnemar_is_the_sign_test_on_games_that_differ(gained: int, lost: int, p: float) -> None:
    before = [False] * gained + [True] * lost + [True, False] * 10
    after = [True] * gained + [False] * lost + [True, False] * 10
    assert mcnemar_exact(before, after) == pytest.approx(p)
    assert mcnemar_exact(after, before) == pytest.approx(p)


def test_mcnemar_takes_thousands_of_games() -> None:
    assert 0 < mcnemar_exact([False] * 3000 + [True] * 2800, [True] * 3000 + [False] * 2800) < 0.02


def test_the_bootstrap_has_the_width_of_the_normal_approximation() -> None:
    rng = np.random.default_rng(0)
    before = rng.random(2000) < 0.4
    after = rng.random(2000) < 0.5
    difference = after.astype(float) - before
    low, high = paired_bootstrap(before, after)
    error = 1.96 * difference.std() / np.sqrt(2000)
    assert (low, high) == pytest.approx((difference.mean() - error, difference.mean() + error), abs=0.0015)


def test_the_bootstrap_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for seed in range(200):
        before, after = rng.random(60) < 0.3, rng.random(60) < 0.5
        low, high = paired_bootstrap(before, after, resamples=1000, seed=seed)
        covered += low <= 0.2 <= high
    # 190 expected; five standard deviations of a fair 95 % are 15.
    assert covered >= 175


def test_the_bootstrap_pairs_games() -> None:
    wins = np.arange(100) % 2
    assert paired_bootstrap(wins, wins) == (0, 0)
    assert paired_bootstrap(wins, wins[::-1])[1] > 0.1


def test_the_bootstrap_is_the_same_for_the_same_seed_alone() -> None:
    before, after = np.sin(np.arange(50)), np.cos(np.arange(50))
    assert paired_bootstrap(before, after, seed=1) == paired_bootstrap(before, after, seed=1)
    assert paired_bootstrap(before, after, seed=1) != paired_bootstrap(before, after, seed=2)


@pytest.mark.parametrize(("before", "after"), [([1.0], [1.0, 0.0]), ([[1.0]], [[1.0]])])
def test_the_bootstrap_refuses_what_is_not_paired(before: list[float], after: list[float]) -> None:
    with pytest.raises(ValueError, match="not one number a game"):
        paired_bootstrap(before, after)


def test_no_games_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="no games"):
        paired_bootstrap([], [])
