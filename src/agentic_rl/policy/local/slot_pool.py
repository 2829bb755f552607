"""The memory that all samplers on one device share for what they remember."""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

from agentic_rl.policy.local.slots import Slots


class Borrower(Protocol):
    """What takes memory of the pool."""

    @property
    def in_use(self) -> bool:
        """Whether it holds anything now."""
        ...


class SlotPool:
    """Says how much each borrower may take, lends slots, and keeps those of the last borrower for the next.

    Parameters
    ----------
    memory_bytes
        How much all may take together. What runs is never stopped for it: a sampler that has more than its share when
        another begins comes down to it as its sequences end.
    """

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.spare: Slots | None = None
        self._borrowers: WeakSet[Borrower] = WeakSet()

    def join(self, borrower: Borrower) -> None:
        """Count one more, for as long as it lives."""
        self._borrowers.add(borrower)

    def take(self) -> Slots:
        """Slots for a new borrower: those that came back last, which need not grow again, or empty ones."""
        slots, self.spare = self.spare or Slots(), None
        self.join(slots)
        return slots

    def give_back(self, slots: Slots) -> Slots:
        """Take slots back, and give empty ones in exchange."""
        self._borrowers.discard(slots)
        if not any(other.in_use for other in self._borrowers):
            self.spare = slots
        empty = Slots()
        self.join(empty)
        return empty

    def share_of(self, borrower: Borrower) -> int:
        """Bytes that it may take: an equal part with all others that hold something."""
        return self.memory_bytes // (1 + sum(other is not borrower and other.in_use for other in self._borrowers))
