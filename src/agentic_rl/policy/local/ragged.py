"""The fast decoder: sequences of any lengths in one pass, through transformers' attention interface.

All new tokens of a step, whoever they belong to, lie side by side in one row of a batch: linear layers and norms see
one dense matrix without padding, and only attention (`slots.py`) looks up which token belongs to whom. Keys and values
stay in slots, so a token is read once.

Bit for bit the same, whatever else is in flight (on the CPU): a matrix product computes a row alike for any number of
rows from `ROW_QUANTUM` upwards, so fewer rows are padded to that, and attention runs sequence by sequence over that
sequence's own length. CUDA prefers few large kernels to that promise: there neighbouring slots share an attention call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from agentic_rl.policy.local.decoder import Work
from agentic_rl.policy.local.forward import logits_at
from agentic_rl.policy.local.slot_pool import SlotPool
from agentic_rl.policy.local.slots import Pass, Segment, use_slot_attention

ROW_QUANTUM = 32


class RaggedDecoder:
    """A `Decoder` over a model whose layers all go through transformers' attention interface.

    Parameters
    ----------
    model
        A frozen copy that this decoder alone uses: its attention implementation is replaced.
    pool
        Where the slots come from, and how much they may take.
    by_block
        Whether neighbouring slots share an attention call; None chooses by device.
    """

    def __init__(self, model: nn.Module, pool: SlotPool, *, by_block: bool | None = None) -> None:
        use_slot_attention(model)
        self._model = model
        self._device = next(model.parameters()).device
        self._dtype = next(model.parameters()).dtype
        self._by_block = by_block if by_block is not None else self._device.type != "cpu"
        self._pool = pool
        self._slots = pool.take()
        self._state_bytes = 0  # what a slot takes beside its keys and values
        if not self._slots.keys:
            self.forward([Work(0, 0, [0])])  # shows how much memory a token takes

    def capacity(self, tokens: int) -> int:
        slot_bytes = self._slots.length_for(tokens) * self._slots.bytes_per_token + self._state_bytes
        return max(1, self._pool.share_of(self._slots) // slot_bytes) if slot_bytes else 1

    def forward(self, works: Sequence[Work]) -> Tensor:
        single = [i for i, work in enumerate(works) if goes_on(work)]
        several = [i for i, work in enumerate(works) if not goes_on(work)]
        order = (*single, *several)
        logits = self._pass([works[i] for i in order], len(single), pad=True, use_cache=False)
        if list(order) == list(range(len(works))):
            return logits
        pieces = dict(zip(order, torch.split(logits, [row_count(works[i]) for i in order]), strict=True))
        return torch.cat([pieces[i] for i in range(len(works))])

    def _pass(self, works: Sequence[Work], single: int, *, pad: bool, column: bool = False, **arguments: Any) -> Tensor:
        """Logits of works of which the first `single` go on by one token.

        `pad` fills up to `ROW_QUANTUM` rows; `column` makes every row a sequence of its own instead of one long one.
        """
        self._reserve(1 + max(work.slot for work in works), max(work.start + len(work.tokens) for work in works))
        ids: list[int] = []
        positions: list[int] = []
        rows: list[int] = []
        segments = []
        for i, work in enumerate(works):
            first = len(ids)
            ids += work.tokens
            positions += range(work.start, work.start + len(work.tokens))
            rows += range(first, len(ids)) if work.every_row else [len(ids) - 1]
            if i >= single:
                segments.append(Segment(first, len(ids), work.slot, work.start))
        count = len(rows)
        rows += [0] * (ROW_QUANTUM - count)
        if pad:
            missing = max(0, ROW_QUANTUM - len(ids))
            ids += ids[:1] * missing
            positions += positions[:1] * missing
        current = Pass(
            slots=self._slots,
            decoding=[(work.slot, work.start) for work in works[:single]],
            decode_slots=self._tensor([work.slot for work in works[:single]]),
            decode_positions=self._tensor([work.start for work in works[:single]]),
            segments=segments,
            dtype=self._dtype,
            by_block=self._by_block,
        )
        axis = 1 if column else 0
        with torch.inference_mode(), current.under_way():
            return logits_at(
                self._model,
                self._tensor(ids).unsqueeze(axis),
                self._tensor(rows),
                position_ids=self._tensor(positions).unsqueeze(axis),
                **arguments,
            )[:count]

    def fork(self, source: int, targets: Sequence[int], length: int) -> None:
        self._reserve(1 + max(targets), length)
        where = self._tensor(targets)
        with torch.inference_mode():
            for store in (self._slots.keys, self._slots.values):
                for tensor in store.values():
                    tensor[where, :, :length] = tensor[source, :, :length]

    def keep(self, slots: Sequence[int]) -> None:
        self._slots.reserve(1 + max(slots, default=0), 0)  # a slot may be promised and not yet written
        with torch.inference_mode():
            self._slots.keep(self._tensor(slots))

    def release(self, slot: int) -> None:
        """Nothing to do: a slot is written before it is read."""

    def close(self) -> None:
        self._slots = self._pool.give_back(self._slots)

    def _reserve(self, slots: int, tokens: int) -> None:
        if slots > self._slots.slots or tokens > self._slots.tokens:
            self._slots.reserve(slots, tokens, most=self.capacity(tokens))

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self._device)


def goes_on(work: Work) -> bool:
    """Whether a sequence that was read before goes on by a single token."""
    return len(work.tokens) == 1 and work.start > 0


def row_count(work: Work) -> int:
    """How many rows of logits a work asks for."""
    return len(work.tokens) if work.every_row else 1
