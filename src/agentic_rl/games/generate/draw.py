"""Random draws that are the same on every machine and in every version of Python."""

from __future__ import annotations

import hashlib
import random
from bisect import bisect
from collections.abc import Mapping, MutableSequence, Sequence
from itertools import accumulate


class Weights[T]:
    """What may be drawn, each key with a chance in proportion to its weight; false if there is nothing."""

    __slots__ = ("keys", "sums")

    def __init__(self, weights: Mapping[T, float]) -> None:
        self.keys = tuple(key for key, weight in weights.items() if weight > 0)
        self.sums = tuple(accumulate(weights[key] for key in self.keys))

    def __bool__(self) -> bool:
        return bool(self.keys)


class Draw:
    """A stream of random choices that depends on its key alone.

    Only `random.Random.random` is used: it is the one method whose values Python promises never to change.
    """

    __slots__ = ("_next",)

    def __init__(self, *key: object) -> None:
        self._next = random.Random(fingerprint(*key)).random

    def chance(self, share: float) -> bool:
        """True in this share of all draws."""
        return self._next() < share

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1."""
        return int(self._next() * bound)

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self._next() * (high - low + 1))

    def one_of[T](self, items: Sequence[T]) -> T:
        """Each item with the same chance."""
        return items[int(self._next() * len(items))]

    def weighted[T](self, weights: Weights[T]) -> T:
        """One of the keys, by weight."""
        # Rounding may put the point on the last sum, which is past the last key.
        place = bisect(weights.sums, self._next() * weights.sums[-1])
        return weights.keys[min(place, len(weights.keys) - 1)]

    def shuffle[T](self, items: MutableSequence[T]) -> None:
        """Put the items into a random order, in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


def fingerprint(*key: object) -> int:
    """64 bits that stand for the key: equal for equal keys, spread evenly otherwise."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest())
