"""The memory that the slots of all samplers on one device share."""

from __future__ import annotations

from weakref import WeakSet

from agentic_rl.policy.local.slots import Slots


class SlotPool:
    """Lends slots, says how much each borrower may fill, and keeps those of the last borrower for the next.

    Parameters
    ----------
    memory_bytes
        How much all slots together may take. What runs is never stopped for it: a sampler that has more than its share
        when another begins comes down to it as its sequences end.
    """

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.spare: Slots | None = None
        self._lent: WeakSet[Slots] = WeakSet()

    def take(self) -> Slots:
        """Slots for a new borrower: those that came back last, which need not grow again, or empty ones."""
        slots, self.spare = self.spare or Slots(), None
        self._lent.add(slots)
        return slots

    def give_back(self, slots: Slots) -> Slots:
        """Take slots back, and give empty ones in exchange."""
        self._lent.discard(slots)
        if not any(other.bytes for other in self._lent):
            self.spare = slots
        empty = Slots()
        self._lent.add(empty)
        return empty

    def share_of(self, slots: Slots) -> int:
        """Bytes that these may take: an equal part with all others that are in use."""
        return self.memory_bytes // (1 + sum(other is not slots and other.bytes > 0 for other in self._lent))
