"""Trajectories and their credit → what the optimizer reads (method.md, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentic_rl.policy.protocol import Datum
from agentic_rl.rollout.trajectory import Group, Trajectory
from agentic_rl.training.recipe import TurnAdvantages


def build_datums(groups: Sequence[Group], advantages: TurnAdvantages) -> list[Datum]:
    """One datum a trajectory, in the order of the groups; those whose advantage is 0 everywhere are left out."""
    return [
        build_datum(trajectory, credit)
        for group in groups
        for trajectory in group.trajectories
        if trajectory.turns and np.any(credit := advantages[trajectory.group_id, trajectory.group_index])
    ]


def build_datum(trajectory: Trajectory, turn_advantages: NDArray[np.float64]) -> Datum:
    """Shift a trajectory by one; only sampled tokens carry a log-probability and an advantage.

    Parameters
    ----------
    turn_advantages
        Shape (turns,).
    """
    if len(turn_advantages) != len(trajectory.turns):
        raise ValueError(f"{len(turn_advantages)} advantages for {len(trajectory.turns)} turns")
    length = len(trajectory.tokens)
    old_logprobs = np.zeros(length)
    advantages = np.zeros(length)
    sampled = np.zeros(length, dtype=np.bool_)
    for turn, advantage in zip(trajectory.turns, turn_advantages, strict=True):
        span = slice(turn.start, turn.end)
        old_logprobs[span] = turn.logprobs
        advantages[span] = advantage
        sampled[span] = True
    return Datum(
        tokens=trajectory.tokens[:-1],
        targets=trajectory.tokens[1:],
        old_logprobs=old_logprobs[1:],
        advantages=advantages[1:],
        sampled=sampled[1:],
    )


def batch_metrics(datums: Sequence[Datum], *, sampled_name: str) -> dict[str, float]:
    """Sizes of the batch; `sampled_name` is `loss_tokens` (08) or `action_tokens` (09)."""
    return {
        "train/nonzero_trajectory_datums": len(datums),
        "train/batch_size": len(datums),
        "train/tokens": sum(len(datum.tokens) for datum in datums),
        f"train/{sampled_name}": sum(int(datum.sampled.sum()) for datum in datums),
        "train/max_sequence_tokens": max((len(datum.tokens) for datum in datums), default=0),
    }
