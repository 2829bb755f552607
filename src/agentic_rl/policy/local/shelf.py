"""Which slot belongs to whom: sequences that run, contents kept for a next turn, and slots that are free."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence

from agentic_rl.policy.local.decoder import Decoder
from agentic_rl.policy.local.requests import Running


class Shelf:
    """The slots of one decoder, within the memory it may use."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._idle: OrderedDict[int, list[int]] = OrderedDict()
        self._free: list[int] = []
        self._made = 0

    def place(self, sequence: Running, running: Sequence[Running]) -> bool:
        """Give a sequence that is about to run a slot, or say that there is no room now.

        It goes on from the idle slot whose whole content begins its tokens (a scoring never does: it wants the
        logits of all of them); else it starts in an empty one.
        """
        found = None if sequence.scoring else self._find(sequence.tokens)
        if found is not None:
            self._idle.move_to_end(found)
        if not self._make_room(len(sequence.tokens), running, new=found is None):
            return False
        if found is None:
            sequence.slot, sequence.known = self._new(), 0
        else:
            sequence.slot, content = self._idle.popitem()
            sequence.known = len(content)
        return True

    def place_empty(self, sequence: Running, running: Sequence[Running]) -> bool:
        """The same for a sequence whose slot will be filled by a fork."""
        if not self._make_room(len(sequence.tokens), running, new=True):
            return False
        sequence.slot = self._new()
        return True

    def keep(self, sequence: Running) -> None:
        """The sequence has ended; what it has read waits for the next turn."""
        self._idle[sequence.slot] = sequence.tokens[: sequence.known]

    def release(self, sequence: Running) -> None:
        """The sequence has ended, and nobody will go on from it."""
        self._let_go(sequence.slot)

    def make_way(self, running: Sequence[Running]) -> None:
        """Come down to what the decoder may use now, and give back what is not in use."""
        self._forget(len(self._idle), len(running) + len(self._idle) - self._decoder.capacity(1))
        self._compact(running)

    def clear(self) -> None:
        """Forget everything and give the memory back."""
        self._idle.clear()
        self._free.clear()
        self._made = 0
        self._decoder.close()

    def _find(self, tokens: list[int]) -> int | None:
        """The idle slot whose whole content begins `tokens`; the longest of them."""
        best, best_length = None, 0
        for slot, content in self._idle.items():
            length = len(content)
            if best_length < length < len(tokens) and tokens[length - 1] == content[-1] and tokens[:length] == content:
                best, best_length = slot, length
        return best

    def _make_room(self, tokens: int, running: Sequence[Running], *, new: bool) -> bool:
        """Whether one more sequence of that length may run. Idle slots give way, the longest unused first.

        Without `new` the last idle slot is the one to be used, and stays.
        """
        longest = max((len(other.tokens) for other in running), default=0)
        capacity = self._decoder.capacity(max(longest, tokens))
        if running and len(running) >= capacity:
            return False
        self._forget(len(self._idle) - (not new), len(running) + len(self._idle) + new - capacity)
        if self._made > capacity:
            self._compact(running)
        return True

    def _forget(self, most: int, surplus: int) -> None:
        """Let go of so many idle slots as are too many, `most` at the most, the longest unused first."""
        for _ in range(min(most, surplus)):
            self._let_go(self._idle.popitem(last=False)[0])

    def _compact(self, running: Sequence[Running]) -> None:
        """Give the memory of unused slots back; the used ones get new numbers."""
        kept = [sequence.slot for sequence in running] + list(self._idle)
        self._decoder.keep(kept)
        number = {slot: i for i, slot in enumerate(kept)}
        for sequence in running:
            sequence.slot = number[sequence.slot]
        self._idle = OrderedDict((number[slot], content) for slot, content in self._idle.items())
        self._free.clear()
        self._made = len(kept)

    def _new(self) -> int:
        """The lowest free number, so that the slots in use stay together."""
        if self._free:
            return heapq.heappop(self._free)
        self._made += 1
        return self._made - 1

    def _let_go(self, slot: int) -> None:
        self._decoder.release(slot)
        heapq.heappush(self._free, slot)
