"""The two seams every backend fills: `Sampler` (a frozen snapshot) and `Policy` (what learns).

Tokens and numbers only: no games, no text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

type TokenArray = NDArray[np.int64]
type FloatArray = NDArray[np.float64]


class FinishReason(StrEnum):
    """Why one completion ended."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample.

    Attributes
    ----------
    max_tokens
        The most tokens a completion may have.
    temperature, top_p
        0 means greedy; top_p 1 means no truncation.
    stop_token_ids
        A completion ends with the first of these; it is part of the completion where the backend returns it.
    seed
        Completion j of a request draws from the stream (seed, j), whatever else is in flight.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    stop_token_ids: tuple[int, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """Sampled tokens with the log-probability of each under the model itself.

    "Itself" means temperature 1 and no truncation, which is what the ratio of PPO needs. A backend that can
    only give something else says so at start-up.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True)
class Datum:
    """One trajectory as the optimizer sees it, shifted by one. All four arrays have shape (N,).

    `tokens` = sequence[:-1] is read, `targets` = sequence[1:] is predicted. `old_logprobs` and `advantages` are
    aligned with `targets` and 0 where the target was not sampled; `sampled` is True where it was.
    """

    tokens: TokenArray
    targets: TokenArray
    old_logprobs: FloatArray
    advantages: FloatArray
    sampled: NDArray[np.bool_]


type LossReduction = Literal["token_mean", "sequence_mean", "sum"]


@dataclass(frozen=True, slots=True)
class LossConfig:
    """PPO's clipped surrogate (Schulman et al. 2017, eq. 7) with absolute bounds on the ratio.

    reduction
        `token_mean`: the sum over sampled tokens divided by their number in the whole batch;
        `sequence_mean`: the mean over trajectories of each one's own token mean; `sum`: the plain sum.
        The denominators count every datum of the batch and every `sampled` position of it.
    """

    clip_low: float = 0.8
    clip_high: float = 1.2
    reduction: LossReduction = "token_mean"


@dataclass(frozen=True, slots=True)
class AdamConfig:
    """One Adam step (Kingma and Ba 2015) with decoupled weight decay and a bound on the gradient's norm."""

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 1.0


@dataclass(frozen=True, slots=True)
class SavedPaths:
    """Addresses of one save: `state` to go on training, `sampler` to sample from."""

    state: str
    sampler: str


class Sampler(Protocol):
    """A frozen snapshot of the weights. Safe to call from many tasks at once."""

    @property
    def id(self) -> str:
        """Names the snapshot; equal ids mean equal weights."""
        ...

    async def sample(self, prompt: Sequence[int], n: int, params: SamplingParams) -> list[Completion]:
        """`n` completions of one prompt."""
        ...

    async def score(self, tokens: Sequence[int]) -> FloatArray:
        """Shape (len(tokens),): entry i is log p(token i | tokens before it); entry 0 is 0."""
        ...

    async def aclose(self) -> None:
        """Release what the snapshot holds (caches, remote runs). Calling it twice is harmless."""
        ...


class Policy(Protocol):
    """What is trained: a base model with a LoRA."""

    @property
    def tokenizer(self) -> Any:
        """A `transformers` tokenizer with the model's chat template."""
        ...

    @property
    def rescoring_is_free(self) -> bool:
        """Whether scoring a sequence again costs no money (decides the default `--evidence-baseline`)."""
        ...

    @property
    def max_sequence_tokens(self) -> int | None:
        """The longest sequence the backend takes; None if it names no limit."""
        ...

    async def snapshot(self) -> Sampler: ...

    async def update(self, datums: Sequence[Datum], loss: LossConfig, adam: AdamConfig) -> Mapping[str, float]:
        """One forward-backward over all datums, one optimizer step; metrics under `trainer/`, `optimizer/`, `time/`."""
        ...

    async def save(self, name: str) -> SavedPaths: ...

    async def aclose(self) -> None: ...
