"""The intervals against published values and against what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_rl.results import (
    mcnemar_exact,
    paired_bootstrap,
    rank_correlation,
    roc_auc,
    roc_auc_interval,
    wilson,
)


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


few_values = st.lists(st.integers(-3, 3), min_size=1, max_size=30)


@given(few_values, few_values)
def test_the_area_is_the_share_of_pairs_in_order_with_ties_counting_half(good: list[int], bad: list[int]) -> None:
    pairs = [(g > b) + (g == b) / 2 for g in good for b in bad]
    assert roc_auc(good, bad) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
    assert roc_auc(bad, good) == pytest.approx(1 - roc_auc(good, bad), abs=1e-12)


@pytest.mark.parametrize(("good", "bad", "area"), [([2, 3], [0, 1], 1), ([0], [1, 2], 0), ([0] * 3, [0] * 4, 0.5)])
def test_the_area_of_plain_cases_is_exact(good: list[float], bad: list[float], area: float) -> None:
    assert roc_auc(good, bad) == area


@pytest.mark.parametrize(("good", "bad"), [([], [1.0]), ([1.0], [])])
def test_there_is_no_area_without_pairs(good: list[float], bad: list[float]) -> None:
    with pytest.raises(ValueError, match="make no pair"):
        roc_auc(good, bad)
    with pytest.raises(ValueError, match="make no pair"):
        roc_auc_interval([*good, *bad], [bool(good)], ["a game"])


def resampled_area(games: list[tuple[list[float], list[float]]], drawn: list[int]) -> float | None:
    good = [score for game in drawn for score in games[game][0]]
    bad = [score for game in drawn for score in games[game][1]]
    return roc_auc(good, bad) if good and bad else None


def test_the_interval_is_that_of_resampling_whole_clusters_turn_by_turn() -> None:
    """Against the plain way: build every resample. Of three games there are only 27 ordered ones, equally likely."""
    games = [([3.0, 1.0], [2.0]), ([5.0], []), ([0.0], [0.0, 4.0])]
    areas = [resampled_area(games, [a, b, c]) for a in range(3) for b in range(3) for c in range(3)]
    possible = sorted(area for area in areas if area is not None)
    assert len(possible) == 26  # the second game drawn three times has no bad turn
    turns = [
        (score, is_good, g) for g, game in enumerate(games) for is_good in (True, False) for score in game[not is_good]
    ]
    scores, labels, names = zip(*turns, strict=True)
    for confidence in (0.5, 0.8):
        low, high = roc_auc_interval(scores, labels, names, confidence=confidence, resamples=50_000)
        wanted = np.quantile(possible, [(1 - confidence) / 2, (1 + confidence) / 2], method="inverted_cdf")
        assert (low, high) == pytest.approx(wanted, abs=1e-9)


def clustered(rng: np.random.Generator, games: int, spread: float) -> tuple[list[float], list[bool], list[int]]:
    """Ten turns a game, good and bad by turns; good ones score 0.5 more, and each game scores as it pleases."""
    own = rng.normal(0, spread, size=games)
    turns = [(own[g] * (k % 2) + rng.normal() + k % 2 / 2, bool(k % 2), g) for g in range(games) for k in range(10)]
    scores, labels, names = zip(*turns, strict=True)
    return list(scores), list(labels), list(names)


def test_the_interval_covers_the_truth_as_often_as_it_says_where_turns_hang_together() -> None:
    """And resampling turns, as if they were independent, does not: that is what the clusters are for."""
    rng = np.random.default_rng(3)
    big_scores, big_labels, _ = clustered(rng, 10_000, spread=1.0)
    score, label = np.array(big_scores), np.array(big_labels)
    truth = roc_auc(score[label], score[~label])
    by_game = by_turn = 0
    for seed in range(100):
        scores, labels, names = clustered(rng, 30, spread=1.0)
        low, high = roc_auc_interval(scores, labels, names, resamples=400, seed=seed)
        by_game += low <= truth <= high
        low, high = roc_auc_interval(scores, labels, range(len(names)), resamples=400, seed=seed)
        by_turn += low <= truth <= high
    # 95 expected; five standard deviations of a fair 95 % are 11.
    assert by_game >= 84
    assert by_turn < 84


def test_the_interval_of_a_constant_score_is_a_point_and_that_of_one_cluster_is_everything() -> None:
    assert roc_auc_interval([0.0] * 6, [True, False] * 3, [1, 1, 2, 2, 3, 3]) == (0.5, 0.5)
    assert roc_auc_interval([1.0, 0.0], [True, False], ["a", "a"]) == (0, 1)


def test_the_interval_is_the_same_for_the_same_seed_alone() -> None:
    scores, labels, names = clustered(np.random.default_rng(0), 12, spread=1.0)
    assert roc_auc_interval(scores, labels, names, seed=1) == roc_auc_interval(scores, labels, names, seed=1)
    assert roc_auc_interval(scores, labels, names, seed=1) != roc_auc_interval(scores, labels, names, seed=2)


def test_labels_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="do not match"):
        roc_auc_interval([1.0, 2.0], [True], ["a", "b"])


@pytest.mark.parametrize(
    ("first", "second", "correlation"),
    [
        ([1, 2, 3, 4], [1, 8, 27, 64], 1),
        ([1, 2, 3, 4], [9, 7, 5, -1], -1),
        ([1, 2, 2, 3], [1, 3, 2, 4], 4.5 / np.sqrt(4.5 * 5)),  # ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4
        ([0, 0, 0], [1, 2, 3], None),
    ],
)
def test_ranks_correlate(first: list[float], second: list[float], correlation: float | None) -> None:
    found = rank_correlation(first, second)
    assert found == (None if correlation is None else pytest.approx(correlation))
