"""Forward, backward, one Adam step: what turns a batch of examples into new adapter weights.

A batch is cut into micro-batches of like length that stay under a budget of tokens. Each example's weights already
hold the denominators of the whole batch, so the cut changes nothing but the order of summation.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentic_rl.errors import BackendError
from agentic_rl.policy.local.forward import entropy, logits_at, token_logprobs
from agentic_rl.policy.local.lora import adapter_weights
from agentic_rl.policy.local.losses import TokenLoss
from agentic_rl.policy.protocol import AdamConfig, FloatArray, TokenArray


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence for the trainer. All arrays have shape (N,).

    The loss of a batch is the sum over its examples' `wanted` positions of `weights` times the token loss.
    Log-probabilities are computed, and given back, for the wanted positions alone.
    """

    tokens: TokenArray
    targets: TokenArray
    old_logprobs: FloatArray
    advantages: FloatArray
    weights: FloatArray
    wanted: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one pass over a batch gave.

    `logprobs` has one array an example, with one entry a wanted position; `entropy` is the mean over them.
    """

    loss: float
    logprobs: tuple[FloatArray, ...]
    entropy: float
    micro_batches: int
    seconds: float


class Trainer:
    """A model with a trainable adapter, its gradient and its optimizer. Not thread-safe: one worker drives it.

    Parameters
    ----------
    model
        From `lora.attach_lora`.
    micro_batch_tokens
        The most tokens, padding included, that go through the model at once (a longer example goes alone).
    micro_batch_examples
        The most examples that go through the model at once.
    checkpoint_activations
        Keep no activations between layers and compute them again on the way back: slower, for long sequences.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        micro_batch_tokens: int = 4096,
        micro_batch_examples: int | None = None,
        checkpoint_activations: bool = False,
    ) -> None:
        self.model = model
        self.parameters: dict[str, Tensor] = adapter_weights(model)
        # foreach=False: one parameter after another, so that a resumed run repeats every rounding.
        self.optimizer = torch.optim.AdamW(self.parameters.values(), lr=0.0, foreach=False)
        self.steps = 0
        self._micro_batch_tokens = micro_batch_tokens
        self._micro_batch_examples = micro_batch_examples
        if checkpoint_activations:
            # The name changed in transformers 5.24; both take the non-reentrant kind by default.
            enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
            enable()  # type: ignore[operator]
            model.train()  # transformers checkpoints only then; the adapters have no dropout

    @property
    def device(self) -> torch.device:
        return next(iter(self.parameters.values())).device

    def forward(self, examples: Sequence[Example], loss: TokenLoss) -> Outcome:
        """The loss and the log-probabilities; leaves no gradient."""
        with torch.no_grad():
            return self._pass(examples, loss, backward=False)

    def forward_backward(self, examples: Sequence[Example], loss: TokenLoss) -> Outcome:
        """Add the gradient of the batch's loss to what has gathered since the last step.

        All or nothing: if any part of it fails or is not finite, the gradient is as it was before.
        """
        before = {name: weight.grad for name, weight in self.parameters.items()}
        for weight in self.parameters.values():
            weight.grad = None
        try:
            outcome = self._pass(examples, loss, backward=True)
            if not np.isfinite(outcome.loss):
                raise BackendError(f"the loss is {outcome.loss}", hint="Check log-probs and advantages for NaN.")
        except BaseException:
            for name, weight in self.parameters.items():
                weight.grad = before[name]
            raise
        for name, weight in self.parameters.items():
            if (gathered := before[name]) is not None:
                weight.grad = gathered if weight.grad is None else gathered + weight.grad
        return outcome

    def step(self, adam: AdamConfig) -> dict[str, float]:
        """One step along the gathered gradient, which is then cleared. `grad_norm` is the norm before clipping."""
        started = time.perf_counter()
        weights = list(self.parameters.values())
        for weight in weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        norm = float(torch.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None]))
        if not np.isfinite(norm):
            self.clear_gradient()
            raise BackendError(f"the gradient's norm is {norm}; the step was not made")
        if adam.grad_clip_norm > 0 and norm > adam.grad_clip_norm:
            for weight in weights:
                if weight.grad is not None:
                    weight.grad.mul_(adam.grad_clip_norm / norm)
        for group in self.optimizer.param_groups:
            group["lr"] = adam.learning_rate
            group["betas"] = (adam.beta1, adam.beta2)
            group["eps"] = adam.eps
            group["weight_decay"] = adam.weight_decay
        self.optimizer.step()
        self.clear_gradient()
        self.steps += 1
        return {
            "grad_norm": norm,
            "learning_rate": adam.learning_rate,
            "step": float(self.steps),
            "seconds": time.perf_counter() - started,
        }

    def clear_gradient(self) -> None:
        """Forget what has gathered."""
        for weight in self.parameters.values():
            weight.grad = None

    def gradient(self) -> dict[str, Tensor]:
        """What has gathered, by the parameters' names."""
        return {name: weight.grad for name, weight in self.parameters.items() if weight.grad is not None}

    def _pass(self, examples: Sequence[Example], loss: TokenLoss, *, backward: bool) -> Outcome:
        started = time.perf_counter()
        logprobs: list[FloatArray] = [np.zeros(0)] * len(examples)
        total = uncertainty = 0.0
        micro_batches = self._micro_batches(examples)
        for indices in micro_batches:
            batch = [examples[i] for i in indices]
            value, found, spread = self._micro_batch(batch, loss, backward=backward)
            total += value
            uncertainty += spread
            ends = np.cumsum([int(example.wanted.sum()) for example in batch])[:-1]
            for i, of_example in zip(indices, np.split(found, ends), strict=True):
                logprobs[i] = of_example
        count = sum(of_example.size for of_example in logprobs)
        return Outcome(
            total, tuple(logprobs), uncertainty / max(1, count), len(micro_batches), time.perf_counter() - started
        )

    def _micro_batches(self, examples: Sequence[Example]) -> list[list[int]]:
        """Indices of examples that go together, longest first; those with nothing wanted are left out."""
        order = sorted(
            (i for i, example in enumerate(examples) if example.wanted.any()),
            key=lambda i: (-len(examples[i].tokens), i),
        )
        batches: list[list[int]] = []
        for i in order:
            longest = len(examples[batches[-1][0]].tokens) if batches else 0
            full = not batches or longest * (len(batches[-1]) + 1) > self._micro_batch_tokens
            if full or len(batches[-1]) == self._micro_batch_examples:
                batches.append([])
            batches[-1].append(i)
        return batches

    def _micro_batch(
        self, batch: Sequence[Example], loss: TokenLoss, *, backward: bool
    ) -> tuple[float, FloatArray, float]:
        longest = max(len(example.tokens) for example in batch)
        # Padding on the right needs no mask: nothing a causal model computes before it can see it.
        ids = np.zeros((len(batch), longest), dtype=np.int64)
        for row, example in zip(ids, batch, strict=True):
            row[: len(example.tokens)] = example.tokens
        rows = np.concatenate([np.flatnonzero(e.wanted) + i * longest for i, e in enumerate(batch)])

        def chosen(arrays: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
            return np.concatenate([a[e.wanted] for a, e in zip(arrays, batch, strict=True)])

        logits = logits_at(self.model, self._on_device(ids), self._on_device(rows), use_cache=False)
        logprobs = token_logprobs(logits, self._on_device(chosen([e.targets for e in batch])))
        old, advantages, weights = (
            self._on_device(chosen(arrays)).to(logprobs.dtype)
            for arrays in ([e.old_logprobs for e in batch], [e.advantages for e in batch], [e.weights for e in batch])
        )
        value = (weights * loss(logprobs, old, advantages)).sum()
        if backward:
            value.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            spread = entropy(logits).sum()
        return float(value.detach()), logprobs.detach().double().cpu().numpy(), float(spread)

    def _on_device(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.device)
