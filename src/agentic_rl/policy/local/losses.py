"""Losses on token log-probabilities: pure functions, one value a token, no reduction inside.

The reduction lives in the weights: every loss of a batch is `sum(weight * loss)` over its tokens, and
`reduction_weights` turns a name of `protocol.LossReduction` into such weights. The denominators are those of the
whole batch, so that cutting the batch into pieces changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentic_rl.policy.protocol import FloatArray, LossReduction
from agentic_rl.policy.reduction import token_scales

type TokenLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(log-probs, old log-probs, advantages) -> loss of each token; all four have the same shape."""


def ppo(clip_low: float, clip_high: float) -> TokenLoss:
    """The clipped surrogate, -min(r A, clip(r, low, high) A), with absolute bounds on the ratio r.

    Source: Schulman et al. 2017, eq. 7, which writes 1 - ε and 1 + ε for the bounds.
    """

    def loss(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor) -> Tensor:
        ratio = torch.exp(logprobs - old_logprobs)
        return -torch.minimum(ratio * advantages, ratio.clamp(clip_low, clip_high) * advantages)

    return loss


def cispo(clip_low: float, clip_high: float) -> TokenLoss:
    """-sg(clip(r, low, high)) A log p: a clipped weight that never silences a token (MiniMax 2025, eq. 4)."""

    def loss(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor) -> Tensor:
        weight = torch.exp(logprobs.detach() - old_logprobs).clamp(clip_low, clip_high)
        return -weight * advantages * logprobs

    return loss


def dro(beta: float) -> TokenLoss:
    """-(log p A - β/2 (log p - log q)²): direct reward optimisation (Richemond et al. 2024, eq. 8)."""

    def loss(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor) -> Tensor:
        return -(logprobs * advantages - 0.5 * beta * (logprobs - old_logprobs).square())

    return loss


def importance_sampling(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor) -> Tensor:
    """-r A, unclipped."""
    return -torch.exp(logprobs - old_logprobs) * advantages


def cross_entropy(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor) -> Tensor:
    """-log p; the other two arguments are not read."""
    del old_logprobs, advantages
    return -logprobs


def reduction_weights(sampled: Sequence[NDArray[np.bool_]], reduction: LossReduction) -> list[FloatArray]:
    """The weight of every token of a batch; `sampled` holds one mask a trajectory."""
    scales = token_scales(reduction, sampled)
    return [mask.astype(np.float64) * scale for mask, scale in zip(sampled, scales, strict=True)]


def ratio_metrics(
    logprobs: FloatArray, old_logprobs: FloatArray, advantages: FloatArray, clip_low: float, clip_high: float
) -> dict[str, float]:
    """How far the policy has moved from the one that sampled, over the sampled tokens of a batch.

    `clip_fraction` counts the tokens whose gradient the clip silences; `approx_kl` is the mean of
    (r - 1) - log r, which estimates KL(old, new) without bias and is never negative (Schulman 2020).
    """
    if logprobs.size == 0:
        return {"ratio_mean": 1.0, "ratio_max": 1.0, "approx_kl": 0.0, "clip_fraction": 0.0}
    log_ratio = logprobs - old_logprobs
    ratio = np.exp(log_ratio)
    silenced = ((advantages > 0) & (ratio > clip_high)) | ((advantages < 0) & (ratio < clip_low))
    return {
        "ratio_mean": float(ratio.mean()),
        "ratio_max": float(ratio.max()),
        "approx_kl": float((ratio - 1.0 - log_ratio).mean()),
        "clip_fraction": float(silenced.mean()),
    }
