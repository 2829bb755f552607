"""Random draws that are the same on every machine and in every version of Python."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, MutableSequence, Sequence


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
        return low + self.below(high - low + 1)

    def one_of[T](self, items: Sequence[T]) -> T:
        """Each item with the same chance."""
        return items[self.below(len(items))]

    def weighted[T](self, weights: Mapping[T, float]) -> T:
        """A key, with a chance in proportion to its weight; at least one weight must be above 0."""
        point = self._next() * sum(weights.values())
        for key, weight in weights.items():
            point -= weight
            if point < 0 < weight:
                return key
        # Rounding can leave the point at the very end.
        return next(key for key in reversed(list(weights)) if weights[key] > 0)

    def shuffle[T](self, items: MutableSequence[T]) -> None:
        """Put the items into a random order, in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


def fingerprint(*key: object) -> int:
    """64 bits that stand for the key: equal for equal keys, spread evenly otherwise."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest())
