"""What an update tells about itself, from the log-probs that came back. The service returns sums of losses only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentic_rl.policy.protocol import Datum, FloatArray, LossConfig
from agentic_rl.policy.reduction import token_scales


def update_metrics(
    datums: Sequence[Datum], logprobs: Sequence[FloatArray] | None, loss: LossConfig
) -> dict[str, float]:
    """The loss by the config's reduction and how far the policy has moved, over the sampled tokens.

    The names and meanings are those of the local backend.
    """
    metrics: dict[str, float] = {}
    if logprobs is None:
        return metrics
    weights = token_scales(loss.reduction, [datum.sampled for datum in datums])
    total, ratios, silenced = 0.0, [], 0
    for datum, new, weight in zip(datums, logprobs, weights, strict=True):
        at = datum.sampled
        advantages = datum.advantages[at]
        ratio = np.exp(new[at] - datum.old_logprobs[at])
        clipped = ratio.clip(loss.clip_low, loss.clip_high)
        total -= weight * float(np.minimum(ratio * advantages, clipped * advantages).sum())
        high, low = (advantages > 0) & (ratio > loss.clip_high), (advantages < 0) & (ratio < loss.clip_low)
        silenced += int((high | low).sum())
        ratios.append(ratio)
    metrics["trainer/loss"] = total
    every = np.concatenate(ratios) if ratios else np.zeros(0)
    if every.size:
        metrics |= {
            "trainer/ratio_mean": float(every.mean()),
            "trainer/ratio_max": float(every.max()),
            "trainer/approx_kl": float((every - 1.0 - np.log(every)).mean()),
            "trainer/clip_fraction": silenced / every.size,
        }
    return metrics
