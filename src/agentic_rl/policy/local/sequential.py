"""The general decoder: one sequence after another through the model's own cache.

For architectures that do not go through transformers' attention interface (recurrent layers, attention sinks, soft
caps, keys shared between layers). Slower, and right for every causal language model of transformers.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from agentic_rl.policy.local.cache_size import cache_bytes
from agentic_rl.policy.local.decoder import Work
from agentic_rl.policy.local.forward import logits_at
from agentic_rl.policy.local.slot_pool import SlotPool

_MEASURED = 33
"""Tokens of the sequence that shows what a token takes. A layer with a window takes less for a long sequence."""


class SequentialDecoder:
    """A `Decoder` for any model: a `DynamicCache` a slot.

    Parameters
    ----------
    model
        A frozen copy.
    pool
        How much memory the caches may take.
    """

    def __init__(self, model: nn.Module, pool: SlotPool) -> None:
        self._model = model
        self._device = next(model.parameters()).device
        self._pool = pool
        self._caches: dict[int, Any] = {}
        # The argument was renamed in transformers 5.24.
        self._argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"

        one, many = (self._measure(tokens) for tokens in (1, _MEASURED))
        self._token_bytes = -(-(many - one) // (_MEASURED - 1))
        self._state_bytes = one - self._token_bytes
        pool.join(self)

    @property
    def in_use(self) -> bool:
        return bool(self._caches)

    def capacity(self, tokens: int) -> int:
        return max(1, self._pool.share_of(self) // max(1, self._state_bytes + tokens * self._token_bytes))

    def forward(self, works: Sequence[Work]) -> Tensor:
        from transformers import DynamicCache

        logits = []
        for work in works:
            if work.start == 0:
                self._caches[work.slot] = DynamicCache(config=self._model.config)
            count = len(work.tokens)
            rows = range(count) if work.every_row else [count - 1]
            with torch.inference_mode():
                logits.append(
                    logits_at(
                        self._model,
                        torch.tensor([list(work.tokens)], device=self._device),
                        torch.tensor(list(rows), device=self._device),
                        position_ids=torch.arange(work.start, work.start + count, device=self._device)[None],
                        use_cache=True,
                        **{self._argument: self._caches[work.slot]},
                    )
                )
        return torch.cat(logits)

    def fork(self, source: int, targets: Sequence[int], length: int) -> None:
        del length
        for target in targets:
            self._caches[target] = copy.deepcopy(self._caches[source])

    def keep(self, slots: Sequence[int]) -> None:
        self._caches = {i: self._caches[slot] for i, slot in enumerate(slots) if slot in self._caches}

    def release(self, slot: int) -> None:
        self._caches.pop(slot, None)

    def close(self) -> None:
        self._caches.clear()

    def _measure(self, tokens: int) -> int:
        """Bytes of the cache of a sequence of that many tokens."""
        self.forward([Work(0, 0, [0] * tokens)])
        size = cache_bytes(self._caches[0])
        self.release(0)
        return size
