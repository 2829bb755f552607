"""The decoder for models with recurrent layers between the attention layers, such as Qwen3.5.

A recurrent layer looks at its neighbours in a row, so sequences cannot lie side by side in one. Those that go on by one
token are stacked instead, a row each, with their recurrent states stacked likewise; those that read new tokens pass
one after another. Attention layers find their keys and values in slots, as in `ragged.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from agentic_rl.policy.local.cache_size import cache_bytes
from agentic_rl.policy.local.decoder import Work
from agentic_rl.policy.local.ragged import ROW_QUANTUM, RaggedDecoder, goes_on
from agentic_rl.policy.local.slot_pool import SlotPool


class _States(DynamicCache):  # type: ignore[misc]
    """transformers' cache for the recurrent layers alone: keys and values pass through to the slots."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return key_states, value_states

    @property
    def recurrent(self) -> list[Any]:
        """The layers that remember something else than keys and values."""
        return [layer for layer in self.layers if hasattr(layer, "recurrent_states")]


class StackedDecoder(RaggedDecoder):
    """A `Decoder` for hybrids of attention and recurrent layers; parameters as in `RaggedDecoder`."""

    def __init__(self, model: nn.Module, pool: SlotPool, *, by_block: bool | None = None) -> None:
        self._states: dict[int, _States] = {}
        # The argument was renamed in transformers 5.24.
        self._argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        super().__init__(model, pool, by_block=by_block)

    def forward(self, works: Sequence[Work]) -> Tensor:
        logits: dict[int, Tensor] = {}
        single = [i for i, work in enumerate(works) if goes_on(work)]
        if single:
            states = [self._states[works[i].slot] for i in single]
            stacked = self._stack(states + states[:1] * (ROW_QUANTUM - len(states)))
            rows = self._pass(
                [works[i] for i in single],
                len(single),
                pad=True,
                column=True,
                use_cache=True,
                **{self._argument: stacked},
            )
            _unstack(stacked, states)
            logits |= {i: rows[row : row + 1] for row, i in enumerate(single)}
        for i, work in enumerate(works):
            if i not in logits:
                if work.start == 0:
                    self._states[work.slot] = _States(config=self._model.config)
                cache = {self._argument: self._states[work.slot]}
                logits[i] = self._pass([work], 0, pad=False, use_cache=True, **cache)
                self._state_bytes = self._state_bytes or cache_bytes(self._states[work.slot])
        return torch.cat([logits[i] for i in range(len(works))])

    def fork(self, source: int, targets: Sequence[int], length: int) -> None:
        super().fork(source, targets, length)
        with torch.inference_mode():
            for target in targets:
                self._states[target] = self._stack([self._states[source]])

    def keep(self, slots: Sequence[int]) -> None:
        super().keep(slots)
        self._states = {i: self._states[slot] for i, slot in enumerate(slots) if slot in self._states}

    def release(self, slot: int) -> None:
        self._states.pop(slot, None)

    def close(self) -> None:
        super().close()
        self._states.clear()

    def _stack(self, states: Sequence[_States]) -> _States:
        """One cache with a row for each of the given ones."""
        stacked = _States(config=self._model.config)
        with torch.inference_mode():
            for target, *sources in zip(stacked.recurrent, *(one.recurrent for one in states), strict=True):
                first = sources[0]
                target.dtype, target.device = first.dtype, first.device
                for flags in _FLAGS:
                    setattr(target, flags, dict(getattr(first, flags)))
                for kind in _KINDS:
                    for i, one in getattr(first, kind).items():
                        if one is not None:
                            getattr(target, kind)[i] = torch.cat([getattr(source, kind)[i] for source in sources])
        return stacked


_KINDS = ("conv_states", "recurrent_states")
_FLAGS = ("is_conv_states_initialized", "is_recurrent_states_initialized", "has_previous_state", "conv_kernel_size")


def _unstack(stacked: _States, states: Sequence[_States]) -> None:
    """Give every row back to its own."""
    for source, *targets in zip(stacked.recurrent, *(one.recurrent for one in states), strict=True):
        for kind in _KINDS:
            for i, rows in getattr(source, kind).items():
                if rows is not None:
                    for row, target in enumerate(targets):
                        getattr(target, kind)[i] = rows[row : row + 1]
