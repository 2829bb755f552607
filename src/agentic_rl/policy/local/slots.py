"""Keys and values in slots, and the attention over them that transformers calls.

A pass carries the new tokens of many sequences. Linear layers and norms see one dense matrix of rows; only attention
looks up which row belongs to whom. It stands in transformers' table of attention functions, so it works
inside any model that goes through that table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

ATTENTION = "agentic_rl_ragged"
LENGTH_QUANTUM = 256
BLOCK = 32
"""Slots that share an attention call on CUDA: neighbours are mostly of one group, hence of like length."""
GROWTH = 1.5

type _Layer = tuple[Tensor, Tensor]

_CURRENT: ContextVar[Pass] = ContextVar("current_pass")


class Slots:
    """Keys and values of every layer, shape (slots, heads, tokens, head size); they grow on demand."""

    def __init__(self) -> None:
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        self.slots = 0
        self.tokens = 0

    def reserve(self, slots: int, tokens: int, *, most: int = 0) -> None:
        """Room for that many; what is there stays. Slots in store are made too, as long as all are not over `most`."""
        if slots <= self.slots and tokens <= self.tokens:
            return
        if slots > self.slots:
            slots = max(slots, min(2 * self.slots, self.slots + 64, most))
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
        return math.ceil(max(tokens, GROWTH * self.tokens) / LENGTH_QUANTUM) * LENGTH_QUANTUM

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
    def in_use(self) -> bool:
        return self.slots > 0

    @property
    def bytes_per_token(self) -> int:
        tensors = (*self.keys.values(), *self.values.values())
        return sum(tensor.shape[1] * tensor.shape[3] * tensor.element_size() for tensor in tensors)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows `first`..`last` of the pass are tokens `start`.. of `slot`."""

    first: int
    last: int
    slot: int
    start: int


@dataclass(slots=True)
class Pass:
    """One forward pass. Its first rows are single new tokens, one a (slot, position) of `decoding`; segments follow."""

    slots: Slots
    decoding: list[tuple[int, int]]
    decode_slots: Tensor
    decode_positions: Tensor
    segments: list[Segment]
    dtype: torch.dtype
    by_block: bool
    masks: dict[tuple[int, int, int], Tensor] = field(default_factory=dict)

    def attend(self, number: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int) -> Tensor:
        """Shapes (heads, rows, size) in, (rows, heads, size) out."""
        layer = keys, values = self.slots.of_layer(number, key, value)
        output = query.new_zeros((query.shape[1], query.shape[0], value.shape[-1]))
        if count := len(self.decoding):
            keys[self.decode_slots, :, self.decode_positions] = key[:, :count].transpose(0, 1)
            values[self.decode_slots, :, self.decode_positions] = value[:, :count].transpose(0, 1)
            decode = self._decode_blocks if self.by_block else self._decode_each
            decode(output, query, key, layer, scale, window)
        for segment in self.segments:
            end = segment.start + segment.last - segment.first
            keys[segment.slot, :, segment.start : end] = key[:, segment.first : segment.last]
            values[segment.slot, :, segment.start : end] = value[:, segment.first : segment.last]
            self._read(segment, output, query, key, layer, scale, window)
        return output

    def _decode_each(
        self, output: Tensor, query: Tensor, key: Tensor, layer: _Layer, scale: float, window: int
    ) -> None:
        """One attention call a sequence: no padding, no mask."""
        keys, values = layer
        # Query heads that share a key head stand as its queries, so no key is copied.
        asked = self._asked(query, key)
        for row, (slot, position) in enumerate(self.decoding):
            first = max(0, position + 1 - window) if window else 0
            answer = scaled_dot_product_attention(
                asked[row : row + 1],
                keys[slot : slot + 1, :, first : position + 1],
                values[slot : slot + 1, :, first : position + 1],
                scale=scale,
            )
            output[row] = answer.reshape(output.shape[1:])

    def _decode_blocks(
        self, output: Tensor, query: Tensor, key: Tensor, layer: _Layer, scale: float, window: int
    ) -> None:
        """One attention call for every `BLOCK` neighbouring slots, as long as the longest of them."""
        keys, values = layer
        asked = self._asked(query, key)
        by_slot = asked.new_zeros((keys.shape[0], *asked.shape[1:]))
        by_slot[self.decode_slots] = asked
        answers = torch.zeros((*by_slot.shape[:-1], values.shape[-1]), dtype=asked.dtype, device=asked.device)
        for begin in sorted({slot - slot % BLOCK for slot, _ in self.decoding}):
            end = min(begin + BLOCK, keys.shape[0])
            length = 1 + max(position for slot, position in self.decoding if begin <= slot < end)
            answers[begin:end] = scaled_dot_product_attention(
                by_slot[begin:end],
                keys[begin:end, :, :length],
                values[begin:end, :, :length],
                attn_mask=self._block_mask(begin, end, length, window).expand(-1, 1, asked.shape[2], -1),
                scale=scale,
            )
        output[: len(asked)] = answers[self.decode_slots].reshape(len(asked), *output.shape[1:])

    def _asked(self, query: Tensor, key: Tensor) -> Tensor:
        """The decoding rows' queries, shape (rows, key heads, query heads of each, size)."""
        count = len(self.decoding)
        return query[:, :count].transpose(0, 1).reshape(count, key.shape[0], -1, query.shape[-1])

    def _block_mask(self, begin: int, end: int, length: int, window: int) -> Tensor:
        def visible(device: torch.device) -> Tensor:
            last = torch.zeros(end - begin, dtype=torch.long, device=device)
            for slot, position in self.decoding:
                if begin <= slot < end:
                    last[slot - begin] = position
            here = torch.arange(length, device=device)
            near = here > last[:, None] - window if window else True
            return ((here <= last[:, None]) & near)[:, None, None]

        return self._mask((begin, end, window), visible)

    def _read(
        self,
        segment: Segment,
        output: Tensor,
        query: Tensor,
        key: Tensor,
        layer: _Layer,
        scale: float,
        window: int,
    ) -> None:
        """The new tokens of one sequence look at its slot."""
        keys, values = layer
        first, last, slot = segment.first, segment.last, segment.slot
        end = segment.start + last - first
        causal = segment.start == 0 and not (window and window < end)
        heads, shared = key.shape[0], query.shape[0] // key.shape[0]

        def visible(device: torch.device) -> Tensor:
            here = torch.arange(end, device=device)
            own = torch.arange(segment.start, end, device=device)[:, None]
            return (here <= own) & (here > own - window) if window else here <= own

        answer = scaled_dot_product_attention(
            query[:, first:last].reshape(heads, shared, last - first, -1),
            keys[slot, :, None, :end].expand(-1, shared, -1, -1),
            values[slot, :, None, :end].expand(-1, shared, -1, -1),
            attn_mask=None if causal else self._mask((first, last, -window), visible),
            is_causal=causal,
            scale=scale,
        )
        output[first:last] = answer.flatten(0, 1).transpose(0, 1)

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """While this lasts, attention means this pass."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def _mask(self, name: tuple[int, int, int], visible: Callable[[torch.device], Tensor]) -> Tensor:
        """A mask to be added to the scores, made by the first layer of a pass and used by all."""
        if (mask := self.masks.get(name)) is None:
            seen = visible(self.decode_slots.device)
            mask = torch.zeros(seen.shape, dtype=self.dtype, device=seen.device).masked_fill_(~seen, -torch.inf)
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
    """What transformers calls in every layer.

    Shapes (1, heads, rows, size) in and (1, rows, heads, size) out; or, where every row is a sequence's single new
    token, (rows, heads, 1, size) in and (rows, 1, heads, size) out.
    """
    if softcap is not None or s_aux is not None:
        raise NotImplementedError("soft caps and attention sinks take the sequential decoder")
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    layer: int = module.layer_idx  # type: ignore[assignment]
    column = query.shape[2] == 1 and query.shape[0] > 1
    if column:
        query, key, value = (tensor.permute(2, 1, 0, 3) for tensor in (query, key, value))
    answer = _CURRENT.get().attend(layer, query[0], key[0], value[0], scale, sliding_window or 0)
    return answer.unsqueeze(1 if column else 0), None


def use_slot_attention(model: nn.Module) -> None:
    """Make a model attend over slots. It answers only inside `Pass.under_way` from then on."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attention)
    model.set_attn_implementation(ATTENTION)  # type: ignore[operator]
