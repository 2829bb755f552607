"""How the service reduces a loss over tokens, found out by a probe, and the scale that makes the reduction ours.

PPO's loss is homogeneous in the advantages: scaling A by c > 0 scales -min(r A, clip(r) A) and its gradient by c. So
whatever the service divides by, the gradient that the config states is reached by scaling each token's advantage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from agentic_rl.errors import BackendError
from agentic_rl.policy.protocol import Datum, FloatArray, LossReduction
from agentic_rl.policy.reduction import token_scales


class ServiceReduction(StrEnum):
    """What the service does to the losses of a call's tokens before it takes the gradient."""

    SUM = "sum"
    TOKEN_MEAN = "token_mean"
    ADVANTAGE_TOKEN_MEAN = "advantage_token_mean"
    SEQUENCE_MEAN = "sequence_mean"
    SEQUENCE_SUM_MEAN = "sequence_sum_mean"


PROBE_LENGTHS = (3, 8)
PROBE_TOKENS = sum(PROBE_LENGTHS)

type _Mask = NDArray[np.bool_]


def service_weights(
    reduction: ServiceReduction, sampled: Sequence[_Mask], advantages: Sequence[FloatArray]
) -> list[float]:
    """What one token's loss counts in each datum, when targets outside `sampled` are ignored."""
    counts = [max(1, int(mask.sum())) for mask in sampled]
    n = len(counts)
    match reduction:
        case ServiceReduction.SUM:
            return [1.0] * n
        case ServiceReduction.TOKEN_MEAN:
            return [1.0 / max(1, sum(int(mask.sum()) for mask in sampled))] * n
        case ServiceReduction.ADVANTAGE_TOKEN_MEAN:
            return [1.0 / max(1, sum(int(np.count_nonzero(a)) for a in advantages))] * n
        case ServiceReduction.SEQUENCE_MEAN:
            return [1.0 / (n * count) for count in counts]
        case ServiceReduction.SEQUENCE_SUM_MEAN:
            return [1.0 / n] * n


def scaled_advantages(datums: Sequence[Datum], wanted: LossReduction, theirs: ServiceReduction) -> list[FloatArray]:
    """The advantages to send, so that the service's gradient is the one that `wanted` states."""
    sampled = [datum.sampled for datum in datums]
    ours = token_scales(wanted, sampled)
    service = service_weights(theirs, sampled, [datum.advantages for datum in datums])
    return [datum.advantages * (w / s) for datum, w, s in zip(datums, ours, service, strict=True)]


def probe_datums(token: Callable[[int], int]) -> list[Datum]:
    """Two tiny datums of unequal length. Some positions are not sampled and one advantage is 0, so that every
    reduction gives another number. The log-probs are "0", which makes the ratio the probability itself: below every
    clip bound, and with a positive advantage unclipped."""
    datums = []
    for number, length in enumerate(PROBE_LENGTHS):
        sequence = np.array([token(7 * number + i) for i in range(length + 1)], dtype=np.int64)
        sampled = np.arange(length) >= 1
        advantages = np.where(sampled, 1.0 + np.arange(length), 0.0)
        advantages[-1] *= number  # the last sampled token of the first datum has no advantage
        datums.append(Datum(sequence[:-1], sequence[1:], np.zeros(length), advantages, sampled))
    return datums


def recognise(loss_sum: float, logprobs: Sequence[FloatArray], datums: Sequence[Datum]) -> ServiceReduction:
    """Tell the reduction from the loss that the service names for the probe.

    Raises
    ------
    BackendError
        It is none that we know, so no scale would be right.
    """
    losses = [float(-(np.exp(lp) * d.advantages)[d.sampled].sum()) for lp, d in zip(logprobs, datums, strict=True)]
    sampled = [datum.sampled for datum in datums]
    advantages = [datum.advantages for datum in datums]
    for reduction in ServiceReduction:
        weights = service_weights(reduction, sampled, advantages)
        expected = sum(weight * loss for weight, loss in zip(weights, losses, strict=True))
        if abs(loss_sum - expected) <= 2e-3 * abs(expected):
            return reduction
    raise BackendError(
        f"PyTRIO reduces losses in a way that is not known (probe: {loss_sum:.6g}, tokens: {sum(losses):.6g})",
        hint=f"State it with --service-reduction ({', '.join(ServiceReduction)}) and --no-probe.",
    )
