"""Credit by comparison within a group: how much better than its siblings was a trajectory?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def group_mean_advantages(rewards: ArrayLike) -> NDArray[np.float64]:
    """Reward minus the mean reward of the group, not divided by the standard deviation.

    The baseline of GRPO (arXiv 2402.03300, section 4.1.2) without its normalisation, which would blow up groups whose
    rewards differ by a fraction of a penalty only.

    Parameters
    ----------
    rewards
        Shape (trajectories,), the rewards of one group.

    Returns
    -------
    Shape (trajectories,). Exactly 0 where all rewards of the group are equal.
    """
    values = group_rewards(rewards)
    if values.min() == values.max():  # three times 0.1 has not the mean 0.1 in floating point
        return np.zeros_like(values)
    return values - values.mean()


def group_rewards(rewards: ArrayLike) -> NDArray[np.float64]:
    """The rewards of one group as an array of shape (trajectories,), checked."""
    values = np.asarray(rewards, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"rewards: one number a trajectory and at least one trajectory, not shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("rewards: every reward must be a finite number")
    return values
