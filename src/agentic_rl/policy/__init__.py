"""Policy: who plays and learns. `protocol.py` is the contract; each backend is one module behind it.

`open_policy` and `open_sampler` choose the backend by name and import it only then.
"""

from __future__ import annotations

from typing import Any, Literal

from agentic_rl.errors import ConfigError
from agentic_rl.policy.protocol import (
    AdamConfig,
    Completion,
    Datum,
    FinishReason,
    LossConfig,
    Policy,
    Sampler,
    SamplingParams,
    SavedPaths,
)

type Backend = Literal["local", "pytrio"]
BACKENDS: tuple[Backend, ...] = ("local", "pytrio")

__all__ = [
    "BACKENDS",
    "AdamConfig",
    "Backend",
    "Completion",
    "Datum",
    "FinishReason",
    "LossConfig",
    "Policy",
    "Sampler",
    "SamplingParams",
    "SavedPaths",
    "open_policy",
    "open_sampler",
]


def open_policy(backend: Backend, base_model: str, **options: Any) -> Policy:
    """What a run trains; `options` are those of `open_local_policy` or `open_pytrio_policy`."""
    match backend:
        case "local":
            from agentic_rl.policy.local import open_local_policy

            return open_local_policy(base_model, **options)
        case "pytrio":
            from agentic_rl.policy.pytrio import open_pytrio_policy

            return open_pytrio_policy(base_model, **options)
    raise ConfigError(f"unknown backend {backend!r}", hint=f"Use one of {', '.join(BACKENDS)}.")


def open_sampler(backend: Backend, base_model: str, model_path: str | None = None, **options: Any) -> Sampler:
    """A frozen model to sample from: the base, or the weights that `model_path` addresses."""
    match backend:
        case "local":
            from agentic_rl.policy.local import open_local_sampler

            return open_local_sampler(base_model, model_path, **options)
        case "pytrio":
            from agentic_rl.policy.pytrio import open_pytrio_sampler

            return open_pytrio_sampler(base_model, model_path, **options)
    raise ConfigError(f"unknown backend {backend!r}", hint=f"Use one of {', '.join(BACKENDS)}.")
