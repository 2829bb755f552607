"""What the server asks of the engine behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentic_rl.policy.protocol import AdamConfig, Completion, FloatArray, TokenArray
from agentic_rl.serving.losses import WireLoss
from agentic_rl.serving.store import Lora


@dataclass(frozen=True, slots=True)
class TrainingItem:
    """One datum off the wire. All arrays have shape (N,).

    Position i of `tokens` predicts `targets[i]`; `active` is False where the target is to be ignored, and
    `targets` holds a harmless id there. The loss of a token counts `weights` times; the other two arrays serve the
    policy losses.
    """

    tokens: TokenArray
    targets: TokenArray
    active: Any
    weights: FloatArray
    old_logprobs: FloatArray
    advantages: FloatArray


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """Log-probabilities of every item's targets and the loss summed over all their tokens."""

    logprobs: tuple[FloatArray, ...]
    loss_sum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOrder:
    """What to sample. `top_k` 0 cuts nothing off; a completion ends with the first stop token or string."""

    prompt: tuple[int, ...]
    n: int
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    stop_token_ids: tuple[int, ...]
    stop_strings: tuple[str, ...]
    seed: int


class Learner(Protocol):
    """The adapter of one training run. Called on the engine's thread only."""

    @property
    def steps(self) -> int:
        """Optimizer steps so far, those before a restored state included."""
        ...

    def forward(self, items: Sequence[TrainingItem], loss: WireLoss, *, backward: bool) -> ForwardResult:
        """With `backward`, gradients are added to those that are there; if it raises, they are as they were."""
        ...

    def step(self, adam: AdamConfig) -> Mapping[str, float]:
        """One optimizer step with the gradients so far, which are then cleared."""
        ...

    def has_gradient(self) -> bool: ...

    def save(self, folder: Path, *, optimizer: bool) -> None: ...


class ServedSampler(Protocol):
    """Frozen weights. Many requests at once are batched together."""

    async def sample(self, order: SamplingOrder) -> Sequence[Completion]: ...

    async def score(self, tokens: Sequence[int]) -> FloatArray: ...

    async def top(self, tokens: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        """The `k` likeliest tokens at every position but the first."""
        ...

    async def aclose(self) -> None: ...


class Engine(Protocol):
    """A loaded base model."""

    @property
    def folder(self) -> Path:
        """Where a client on this machine finds the tokenizer."""
        ...

    @property
    def fingerprint(self) -> str:
        """Equal for equal base models."""
        ...

    @property
    def tokenizer(self) -> Any: ...

    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...

    @property
    def vocabulary(self) -> int:
        """`len(tokenizer)`: no id from here on is sampled or accepted."""
        ...

    @property
    def context_length(self) -> int | None:
        """The longest sequence; None if the model names none."""
        ...

    async def run[T](self, work: Callable[[], T]) -> T:
        """Do something on the engine's thread, after what was asked before."""
        ...

    def learner(self, lora: Lora, *, source: Path | None, optimizer: bool) -> Learner:
        """A fresh adapter, or one from a checkpoint folder. On the engine's thread."""
        ...

    def sampler(self, source: Path | None, lora: Lora | None) -> ServedSampler:
        """The base model, or a checkpoint of it. On the engine's thread."""
        ...

    def close(self) -> None:
        """Let the thread end once its work is done."""
        ...
