"""The fast decoder: sequences of any lengths in one pass, through transformers' attention interface.

All new tokens of a step, whoever they belong to, lie side by side in one row of a batch: linear layers and norms see
one dense matrix without padding, and only attention looks up which token belongs to whom. Keys and values stay
in slots, so a token is read once.

Bit for bit the same, whatever else is in flight (on the CPU): a matrix product computes a row alike for any number of
rows from `ROW_QUANTUM` upwards, so fewer rows are padded to that; attention runs sequence by sequence, with the
length of its sums rounded up to `LENGTH_QUANTUM`, below which the order of summation would change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from agentic_rl.policy.local.decoder import Work
from agentic_rl.policy.local.forward import logits_at

ATTENTION = "agentic_rl_ragged"
ROW_QUANTUM = 16
LENGTH_QUANTUM = 256
BLOCK = 16
"""Slots that share one attention call while decoding: neighbours are mostly of one group, hence of like length."""

_PASS: ContextVar[_Pass] = ContextVar("ragged_pass")


class Slots:
    """Keys and values of every layer, shape (slots, heads, tokens, head size); they grow on demand."""

    def __init__(self) -> None:
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        self.slots = 0
        self.tokens = 0

    def reserve(self, slots: int, tokens: int) -> None:
        """Room for that many; what is there stays."""
        if slots <= self.slots and tokens <= self.tokens:
            return
        if slots > self.slots:
            slots = max(slots, min(2 * self.slots, self.slots + 64))
        old_slots, old_tokens = self.slots, self.tokens
        self.slots, self.tokens = max(slots, self.slots), self.length_for(tokens)
        for store in (self.keys, self.values):
            for layer, old in store.items():
                new = old.new_zeros((self.slots, old.shape[1], self.tokens, old.shape[3]))
                new[:old_slots, :, :old_tokens] = old
                store[layer] = new

    def length_for(self, tokens: int) -> int:
        """How long the slots would be if one had to hold that many tokens."""
        if tokens <= self.tokens:
            return self.tokens
        return math.ceil(max(tokens, 1.25 * self.tokens) / LENGTH_QUANTUM) * LENGTH_QUANTUM

    def keep(self, slots: Tensor) -> None:
        """Only these, in this order."""
        for store in (self.keys, self.values):
            for layer, old in store.items():
                store[layer] = old.index_select(0, slots)
        self.slots = len(slots)

    def of_layer(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's stores; made at its first use, when the shape of its heads is known."""
        if layer not in self.keys:
            # Zeros, not garbage: what a mask hides is multiplied by 0, and 0 * NaN is NaN.
            self.keys[layer] = key.new_zeros((self.slots, key.shape[0], self.tokens, key.shape[-1]))
            self.values[layer] = value.new_zeros((self.slots, value.shape[0], self.tokens, value.shape[-1]))
        return self.keys[layer], self.values[layer]

    @property
    def bytes_per_token(self) -> int:
        tensors = (*self.keys.values(), *self.values.values())
        return sum(tensor.shape[1] * tensor.shape[3] * tensor.element_size() for tensor in tensors)

    def clear(self) -> None:
        self.keys.clear()
        self.values.clear()
        self.slots = self.tokens = 0


@dataclass(frozen=True, slots=True)
class _Segment:
    """Rows `first`..`last` of the pass are tokens `start`.. of `slot`."""

    first: int
    last: int
    slot: int
    start: int


@dataclass(slots=True)
class _Pass:
    """One forward pass: rows 0..len(decode_slots) are single new tokens, the segments follow."""

    slots: Slots
    decode_slots: Tensor
    decode_positions: Tensor
    blocks: list[tuple[int, int, int]]
    segments: list[_Segment]
    masks: dict[tuple[int, ...], Tensor] = field(default_factory=dict)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int) -> Tensor:
        """Shapes (heads, rows, size) in, (rows, heads, size) out."""
        keys, values = self.slots.of_layer(layer, key, value)
        output = query.new_zeros((query.shape[1], query.shape[0], value.shape[-1]))
        if len(self.decode_slots):
            self._decode(output, query, key, value, keys, values, scale, window)
        for segment in self.segments:
            self._prefill(segment, output, query, key, value, keys, values, scale, window)
        return output

    def _decode(
        self,
        output: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        window: int,
    ) -> None:
        count, slots = len(self.decode_slots), self.decode_slots
        heads = key.shape[0]
        keys[slots, :, self.decode_positions] = key[:, :count].transpose(0, 1)
        values[slots, :, self.decode_positions] = value[:, :count].transpose(0, 1)
        # Query heads that share a key head stand as its queries, so no key is copied.
        asked = query[:, :count].transpose(0, 1).reshape(count, heads, -1, query.shape[-1])
        by_slot = asked.new_zeros((self.blocks[-1][1], *asked.shape[1:]))
        by_slot[slots] = asked
        answers = []
        for begin, end, length in self.blocks:
            answer = scaled_dot_product_attention(
                by_slot[begin:end],
                keys[begin:end, :, :length],
                values[begin:end, :, :length],
                attn_mask=self._decode_mask(begin, end, length, window).expand(-1, 1, asked.shape[2], -1),
                scale=scale,
            )
            answers.append(answer)
        rows = torch.cat(answers).index_select(0, self._row_of_slot())
        output[:count] = rows.reshape(count, -1, rows.shape[-1])

    def _row_of_slot(self) -> Tensor:
        """Where each decoding slot stands in the blocks laid end to end."""
        if (cached := self.masks.get(())) is None:
            offsets, place = {}, 0
            for begin, end, _ in self.blocks:
                offsets[begin // BLOCK] = place - begin
                place += end - begin
            rows = [slot + offsets[slot // BLOCK] for slot in self.decode_slots.tolist()]
            cached = self.masks[()] = torch.tensor(rows, device=self.decode_slots.device)
        return cached

    def _decode_mask(self, begin: int, end: int, length: int, window: int) -> Tensor:
        name = (begin, window)
        if (mask := self.masks.get(name)) is None:
            device = self.decode_slots.device
            last = torch.zeros(self.blocks[-1][1], dtype=torch.long, device=device)
            last[self.decode_slots] = self.decode_positions
            here = torch.arange(length, device=device)
            last = last[begin:end, None]
            mask = here <= last
            if window:
                mask &= here > last - window
            mask = self.masks[name] = mask[:, None, None]
        return mask

    def _prefill(
        self,
        segment: _Segment,
        output: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        window: int,
    ) -> None:
        first, last, slot, start = segment.first, segment.last, segment.slot, segment.start
        end = start + last - first
        keys[slot, :, start:end] = key[:, first:last]
        values[slot, :, start:end] = value[:, first:last]
        causal = start == 0 and not (window and window < end)
        length = end if causal else math.ceil(end / LENGTH_QUANTUM) * LENGTH_QUANTUM
        length = min(length, keys.shape[2])
        heads, shared = key.shape[0], query.shape[0] // key.shape[0]
        answer = scaled_dot_product_attention(
            query[:, first:last].reshape(heads, shared, last - first, -1),
            keys[slot, :, None, :length].expand(-1, shared, -1, -1),
            values[slot, :, None, :length].expand(-1, shared, -1, -1),
            attn_mask=None if causal else self._prefill_mask(segment, length, window),
            is_causal=causal,
            scale=scale,
        )
        output[first:last] = answer.flatten(0, 1).transpose(0, 1)

    def _prefill_mask(self, segment: _Segment, length: int, window: int) -> Tensor:
        name = (segment.first, window, length)
        if (mask := self.masks.get(name)) is None:
            device = self.decode_slots.device
            here = torch.arange(length, device=device)
            own = torch.arange(segment.start, segment.start + segment.last - segment.first, device=device)[:, None]
            mask = here <= own
            if window:
                mask &= here > own - window
            self.masks[name] = mask
        return mask


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in every layer; shapes (1, heads, rows, size) in, (1, rows, heads, size) out."""
    if softcap is not None or s_aux is not None:
        raise NotImplementedError("soft caps and attention sinks take the sequential decoder")
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    layer: int = module.layer_idx  # type: ignore[assignment]
    answer = _PASS.get().attend(layer, query[0], key[0], value[0], scale, sliding_window or 0)
    return answer.unsqueeze(0), None


class RaggedDecoder:
    """A `Decoder` over a model whose layers all go through transformers' attention interface.

    Parameters
    ----------
    model
        A frozen copy that this decoder alone uses: its attention implementation is replaced.
    memory_bytes
        How much all slots together may take.
    """

    def __init__(self, model: nn.Module, memory_bytes: int) -> None:
        from transformers import AttentionInterface

        AttentionInterface.register(ATTENTION, _attention)
        model.set_attn_implementation(ATTENTION)  # type: ignore[operator]
        self._model = model
        self._device = next(model.parameters()).device
        self._slots = Slots()
        self.forward([Work(0, 0, [0])])  # shows how much memory a token takes
        self._most_tokens = max(1, memory_bytes // self._slots.bytes_per_token)
        self._slots.clear()

    def capacity(self, tokens: int) -> int:
        return max(1, self._most_tokens // self._slots.length_for(tokens))

    def forward(self, works: Sequence[Work]) -> Tensor:
        single = [i for i, work in enumerate(works) if len(work.tokens) == 1 and work.start > 0]
        several = [i for i, work in enumerate(works) if not (len(work.tokens) == 1 and work.start > 0)]
        self._slots.reserve(1 + max(work.slot for work in works), max(work.start + len(work.tokens) for work in works))
        ids: list[int] = []
        positions: list[int] = []
        wanted: list[list[int]] = [[] for _ in works]
        segments = []
        for i in (*single, *several):
            work = works[i]
            first = len(ids)
            ids.extend(work.tokens)
            positions.extend(range(work.start, work.start + len(work.tokens)))
            wanted[i] = list(range(first, len(ids))) if work.every_row else [len(ids) - 1]
        first = len(single)
        for i in several:
            work = works[i]
            segments.append(_Segment(first, first + len(work.tokens), work.slot, work.start))
            first += len(work.tokens)
        rows = [row for of_work in wanted for row in of_work]
        count = len(rows)
        ids += [0] * (ROW_QUANTUM - len(ids))
        positions += [0] * (ROW_QUANTUM - len(positions))
        rows += [0] * (ROW_QUANTUM - count)
        current = _Pass(
            slots=self._slots,
            decode_slots=self._tensor([works[i].slot for i in single]),
            decode_positions=self._tensor([works[i].start for i in single]),
            blocks=_blocks([(works[i].slot, works[i].start + 1) for i in single], self._slots),
            segments=segments,
        )
        token = _PASS.set(current)
        try:
            with torch.inference_mode():
                return logits_at(
                    self._model,
                    self._tensor(ids).unsqueeze(0),
                    self._tensor(rows),
                    position_ids=self._tensor(positions).unsqueeze(0),
                    use_cache=False,
                )[:count]
        finally:
            _PASS.reset(token)

    def fork(self, source: int, targets: Sequence[int], length: int) -> None:
        self._slots.reserve(1 + max(targets), length)
        where = self._tensor(targets)
        with torch.inference_mode():
            for store in (self._slots.keys, self._slots.values):
                for tensor in store.values():
                    tensor[where, :, :length] = tensor[source, :, :length]

    def keep(self, slots: Sequence[int]) -> None:
        with torch.inference_mode():
            self._slots.keep(self._tensor(slots))

    def release(self, slot: int) -> None:
        """Nothing to do: a slot is written before it is read."""

    def close(self) -> None:
        self._slots.clear()

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self._device)


def _blocks(decoding: Sequence[tuple[int, int]], slots: Slots) -> list[tuple[int, int, int]]:
    """(first slot, last slot, length) of the runs of neighbouring slots that one attention call covers."""
    longest: dict[int, int] = {}
    for slot, length in decoding:
        longest[slot // BLOCK] = max(length, longest.get(slot // BLOCK, 0))
    return [
        (
            block * BLOCK,
            min((block + 1) * BLOCK, slots.slots),
            min(math.ceil(length / LENGTH_QUANTUM) * LENGTH_QUANTUM, slots.tokens),
        )
        for block, length in sorted(longest.items())
    ]
