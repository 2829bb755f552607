"""What the sampling engine needs of a model: slots that remember sequences, and one pass over new tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Work:
    """New tokens of one sequence: they stand at `start`, `start + 1`, … and everything before is in the slot.

    `every_row` asks for the logits after each of them, not only after the last.
    """

    slot: int
    start: int
    tokens: Sequence[int]
    every_row: bool = False


class Decoder(Protocol):
    """Keys and values (or whatever a model remembers) of many sequences, addressed by slot."""

    def capacity(self, tokens: int) -> int:
        """How many slots of that many tokens fit into the memory it may use (at least 1)."""
        ...

    def forward(self, works: Sequence[Work]) -> Tensor:
        """Logits in float32, the rows of each work in order. Afterwards the slots remember the new tokens."""
        ...

    def fork(self, source: int, targets: Sequence[int], length: int) -> None:
        """Let `targets` remember what `source` remembers of its first `length` tokens."""
        ...

    def keep(self, slots: Sequence[int]) -> None:
        """Forget all but these, which become 0, 1, …, and give the memory back."""
        ...

    def release(self, slot: int) -> None:
        """Forget the slot."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...
