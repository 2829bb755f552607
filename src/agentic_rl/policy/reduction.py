"""What `LossReduction` means: the one definition that every backend takes its denominators from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentic_rl.policy.protocol import LossReduction


def token_scales(reduction: LossReduction, sampled: Sequence[NDArray[np.bool_]]) -> list[float]:
    """What one sampled token's loss counts, for each datum of a batch; `sampled` holds one mask a datum.

    A datum without a sampled token still counts in the mean over trajectories.

    Raises
    ------
    ValueError
        An unknown reduction.
    """
    counts = [int(mask.sum()) for mask in sampled]
    match reduction:
        case "sum":
            return [1.0] * len(counts)
        case "token_mean":
            return [1.0 / max(1, sum(counts))] * len(counts)
        case "sequence_mean":
            return [1.0 / (len(counts) * max(1, count)) for count in counts]
    raise ValueError(f"unknown loss reduction {reduction!r}")
