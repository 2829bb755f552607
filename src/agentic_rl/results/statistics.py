"""How sure we can be: intervals for a rate, and for the difference between two players of the same games."""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def _differences(before: ArrayLike, after: ArrayLike) -> NDArray[np.float64]:
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"shapes {first.shape} and {second.shape} are not one number a game each")
    return second - first
