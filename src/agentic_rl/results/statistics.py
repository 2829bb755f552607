"""How sure we can be: of a rate, of the difference between two players of the same games, of a score that sorts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def wilson(successes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a rate (Wilson 1927): honest near 0 and 1 and for few games.

    No trials: anything is possible, (0, 1).
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials")
    if trials == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / trials
    shrink = 1 + z * z / trials
    centre = (rate + z * z / (2 * trials)) / shrink
    half = z / shrink * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    # At the ends the bound is exact; rounding must not push it past them.
    return Interval(0.0 if successes == 0 else centre - half, 1.0 if successes == trials else centre + half)


def paired_bootstrap(
    before: ArrayLike, after: ArrayLike, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval (Efron 1979) for mean(after − before), games resampled as pairs.

    Parameters
    ----------
    before, after
        Shape (games,): the same games in the same order.
    """
    differences = _differences(before, after)
    games = len(differences)
    if games == 0:
        raise ValueError("no games to compare")
    # A resample's mean depends only on how often each value of the difference is drawn.
    values, counts = np.unique(differences, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(games, counts / games, size=resamples)
    low, high = np.quantile(drawn @ values / games, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


def mcnemar_exact(before: Sequence[bool], after: Sequence[bool]) -> float:
    """Two-sided p-value of McNemar's exact test: could the two players win equally often?

    Only games that one of them won and the other lost say anything; under the null hypothesis each is a fair coin.
    """
    differences = _differences(np.asarray(before, dtype=bool), np.asarray(after, dtype=bool))
    gained, lost = int((differences > 0).sum()), int((differences < 0).sum())
    discordant = gained + lost
    tail, ways = 1, 1  # how many of the 2^discordant outcomes are as lopsided on this side, exactly
    for k in range(1, min(gained, lost) + 1):
        ways = ways * (discordant - k + 1) // k
        tail += ways
    return min(1.0, 2 * tail / (1 << discordant))


def roc_auc(positive: ArrayLike, negative: ArrayLike) -> float:
    """The area under the ROC curve: how often a positive's score is above a negative's; ties count half.

    It is Mann and Whitney's U (1947) over the number of pairs. 0.5 means that the score tells nothing.
    """
    high, low = np.asarray(positive, dtype=np.float64), np.sort(np.asarray(negative, dtype=np.float64))
    if not (high.size and low.size):
        raise ValueError(f"{high.size} positives and {low.size} negatives make no pair")
    return float(_pairs_in_order(high, low).sum() / (high.size * low.size))


def roc_auc_interval(
    scores: ArrayLike,
    positive: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval for `roc_auc`, whole clusters resampled.

    Scores of one cluster hang together (turns of one game), so it is clusters that are drawn, with all they hold.
    Draws without a positive or without a negative have no area and are left out. A single cluster says nothing of
    others: anything is possible, (0, 1).

    Parameters
    ----------
    scores, positive, clusters
        One entry a turn: its score, whether it is a positive, and what it belongs to.
    """
    score, is_positive = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    if not score.shape == is_positive.shape == (len(clusters),):
        raise ValueError(f"{score.shape} scores, {is_positive.shape} labels and {len(clusters)} clusters do not match")
    roc_auc(score[is_positive], score[~is_positive])  # refuses what has no area at all
    numbers: dict[Hashable, int] = {}
    cluster = np.array([numbers.setdefault(name, len(numbers)) for name in clusters])
    if len(numbers) == 1:
        return Interval(0.0, 1.0)
    # In a resample, a pair counts as often as its two clusters were drawn: a quadratic form in the draws.
    ordered = np.zeros((len(numbers), len(numbers)))
    for column in range(len(numbers)):
        negatives = np.sort(score[~is_positive & (cluster == column)])
        pairs = _pairs_in_order(score[is_positive], negatives)
        ordered[:, column] = np.bincount(cluster[is_positive], pairs, minlength=len(numbers))
    drawn = np.random.default_rng(seed).multinomial(len(numbers), np.full(len(numbers), 1 / len(numbers)), resamples)
    totals = [drawn @ np.bincount(cluster[side], minlength=len(numbers)) for side in (is_positive, ~is_positive)]
    whole = (totals[0] > 0) & (totals[1] > 0)
    areas = np.einsum("ri,ri->r", drawn @ ordered, drawn)[whole] / (totals[0] * totals[1])[whole]
    low, high = np.quantile(areas, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float | None:
    """Spearman's rank correlation (1904), equal values sharing their mean rank; None where one side is constant."""
    ranks = [_ranks(np.asarray(values, dtype=np.float64)) for values in (first, second)]
    if ranks[0].shape != ranks[1].shape or ranks[0].ndim != 1:
        raise ValueError(f"shapes {ranks[0].shape} and {ranks[1].shape} are not pairs")
    if any(len(np.unique(values)) < 2 for values in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _pairs_in_order(positive: NDArray[np.float64], sorted_negative: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each positive the number of negatives below it, and half of those equal to it."""
    below = np.searchsorted(sorted_negative, positive, side="left")
    return (below + np.searchsorted(sorted_negative, positive, side="right")) / 2


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def _differences(before: ArrayLike, after: ArrayLike) -> NDArray[np.float64]:
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"shapes {first.shape} and {second.shape} are not one number a game each")
    return second - first
