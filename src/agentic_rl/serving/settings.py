"""What one server is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentic_rl.serving.faults import FaultSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The flags of `agentic-rl serve`, checked.

    Attributes
    ----------
    served_names
        The names that clients may ask for; the first one is the alias that the catalogue shows.
    max_sequence_tokens
        The longest sequence for training and sampling; None for the model's own context length.
    temporary_checkpoints
        How many temporary checkpoints of one run are kept; the least recently used go first.
    loaded_samplers
        How many snapshots stay in memory; others are loaded again from disk when they are asked.
    idle_seconds
        A training run that is silent for so long is put on disk until its next event.
    """

    state_dir: Path
    api_key: str
    served_names: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 8311
    max_sequence_tokens: int | None = None
    max_batch_size: int | None = None
    max_tokens_per_request: int | None = None
    temporary_checkpoints: int = 8
    loaded_samplers: int = 4
    idle_seconds: float = 900.0
    faults: tuple[FaultSpec, ...] = ()
