"""The numbers of a rollout (method.md, section 7), from its groups and their rewards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from agentic_rl.rollout.runner import Rollout
from agentic_rl.rollout.trajectory import Group, Trajectory

TURNS_NAME = {"rollout": "steps_mean", "trajectory": "turns_mean"}
"""What recipes 08 and 09 call the mean number of turns; it goes with their prefix."""


def rollout_metrics(rollout: Rollout, rewards: Sequence[ArrayLike], *, prefix: str) -> dict[str, float]:
    """Everything a training run logs about one rollout.

    Parameters
    ----------
    rewards
        One array of shape (trajectories,) a group.
    prefix
        `rollout` (recipe 08) or `trajectory` (recipe 09).
    """
    return {
        **reward_metrics(rollout.groups, rewards),
        **play_metrics(rollout.groups, prefix=prefix),
        **group_metrics(rollout.groups, rewards),
        **cost_metrics(rollout),
    }


def reward_metrics(groups: Sequence[Group], rewards: Sequence[ArrayLike]) -> dict[str, float]:
    """`reward/…`: rewards and wins over trajectories, and how many groups were won or lost throughout."""
    played = _trajectories(groups)
    if not played:
        return {}
    values = np.concatenate([np.asarray(of_group, dtype=np.float64) for of_group in rewards])
    if len(values) != len(played):
        raise ValueError(f"{len(values)} rewards for {len(played)} trajectories")
    wins = [[trajectory.won for trajectory in group.trajectories] for group in groups]
    metrics = {
        "reward/mean": float(values.mean()),
        "reward/std": float(values.std()),
        "reward/success_rate": success_rate(played),
        "reward/all_success_group_rate": _mean(all(of_group) for of_group in wins),
        "reward/all_failure_group_rate": _mean(not any(of_group) for of_group in wins),
    }
    for task_type in sorted({trajectory.game.task_type for trajectory in played}):
        of_type = [trajectory for trajectory in played if trajectory.game.task_type == task_type]
        metrics[f"reward/success_rate/{task_type}"] = success_rate(of_type)
    return metrics


def play_metrics(groups: Sequence[Group], *, prefix: str) -> dict[str, float]:
    """`<prefix>/…`: how the games were played.

    Rates of calls and actions are over all turns of all trajectories, the rest over trajectories.
    """
    played = _trajectories(groups)
    if not played:
        return {}
    turns = [turn for trajectory in played for turn in trajectory.turns]
    return {
        f"{prefix}/{TURNS_NAME[prefix]}": len(turns) / len(played),
        f"{prefix}/truncated_rate": _mean(trajectory.truncated for trajectory in played),
        f"{prefix}/valid_tool_call_rate": _mean(turn.valid_format for turn in turns),
        f"{prefix}/admissible_action_rate": _mean(turn.admissible for turn in turns),
        f"{prefix}/valid_action_rate": _mean(turn.valid_action for turn in turns),
        f"{prefix}/invalid_actions_mean": _mean(trajectory.invalid_action_count for trajectory in played),
    }


def group_metrics(groups: Sequence[Group], rewards: Sequence[ArrayLike]) -> dict[str, float]:
    """`advantage/groups` and the share of them in which all rewards are equal, so that nothing can be learnt."""
    equal = [np.ptp(np.asarray(of_group, dtype=np.float64)) == 0.0 for of_group in rewards]
    return {"advantage/groups": len(groups), "advantage/degenerate_group_rate": _mean(equal)}


def cost_metrics(rollout: Rollout) -> dict[str, float]:
    """What a rollout took, and what it lost."""
    return {
        "requests/sample_count": rollout.sample_requests,
        "requests/sample_failed": rollout.failed_requests,
        "tokens/sample_prompt": rollout.prompt_tokens,
        "tokens/sampled": rollout.sampled_tokens,
        "failures/dropped_trajectories": rollout.dropped_trajectories,
        "failures/left_out_groups": rollout.left_out_groups,
    }


def success_rate(trajectories: Sequence[Trajectory]) -> float:
    """The share of trajectories that won."""
    return _mean(trajectory.won for trajectory in trajectories)


def _trajectories(groups: Sequence[Group]) -> list[Trajectory]:
    return [trajectory for group in groups for trajectory in group.trajectories]


def _mean(values: Iterable[float]) -> float:
    numbers = [float(value) for value in values]
    return sum(numbers) / len(numbers) if numbers else 0.0
