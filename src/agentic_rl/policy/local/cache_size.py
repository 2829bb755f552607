"""How much memory one of transformers' caches takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor


def cache_bytes(cache: Any) -> int:
    """Bytes of all tensors in its layers, whatever a layer calls them: keys, values, recurrent states."""
    return sum(_bytes(value) for layer in cache.layers for value in vars(layer).values())


def _bytes(value: object) -> int:
    if isinstance(value, Tensor):
        return value.nbytes
    if isinstance(value, Mapping):
        return sum(map(_bytes, value.values()))
    return sum(map(_bytes, value)) if isinstance(value, Iterable) and not isinstance(value, str) else 0
