"""The numbers of a rollout, on groups small enough to count by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from agentic_rl.rollout import Group, Rollout, StopReason, Trajectory, Turn
from agentic_rl.rollout.metrics import rollout_metrics


@dataclass(frozen=True)
class Named:
    """As much of a game as metrics need."""

    task_type: str
    game_id: str = "train:x/y"
    split: str = "train"
    location: str = "nowhere"


def turn(step: int, *, valid: bool = True, admissible: bool = True) -> Turn:
    return Turn(
        step, "", (), "", "", "look" if valid else None, valid, admissible, "", "", 0.0, False, False, 1, 2, np.zeros(1)
    )


def trajectory(task_type: str, reason: StopReason, *turns: Turn) -> Trajectory:
    return Trajectory(Named(task_type), "1:x", 0, "", "", "", "", np.zeros(2, np.int64), turns, reason)  # type: ignore[arg-type]


LIGHT, TWO = "look_at_obj_in_light", "pick_two_obj_and_place"
GROUPS = (
    (
        trajectory(LIGHT, StopReason.WON, turn(1), turn(2)),
        trajectory(LIGHT, StopReason.MAX_TURNS, turn(1, valid=False, admissible=False), turn(2, admissible=False)),
    ),
    (trajectory(TWO, StopReason.WON, turn(1)), trajectory(TWO, StopReason.WON, turn(1))),
    (trajectory(TWO, StopReason.MAX_TURNS, turn(1)), trajectory(TWO, StopReason.TRAJECTORY_TOO_LONG, turn(1))),
)
REWARDS = [[1.0, -0.2], [1.0, 1.0], [0.0, 0.0]]


def rollout_of(groups: tuple[tuple[Trajectory, ...], ...]) -> Rollout:
    return Rollout(
        groups=tuple(Group(members[0].game, "1:x", members) for members in groups),
        dropped_trajectories=3,
        left_out_groups=1,
        failures=(),
        sample_requests=9,
        failed_requests=4,
        prompt_tokens=900,
        sampled_tokens=90,
    )


def test_names_and_values_of_a_recipe_08_rollout() -> None:
    assert rollout_metrics(rollout_of(GROUPS), REWARDS, prefix="rollout") == pytest.approx(
        {
            "reward/mean": 2.8 / 6,
            "reward/std": float(np.std([1.0, -0.2, 1.0, 1.0, 0.0, 0.0])),
            "reward/success_rate": 0.5,
            f"reward/success_rate/{LIGHT}": 0.5,
            f"reward/success_rate/{TWO}": 0.5,
            "reward/all_success_group_rate": 1 / 3,
            "reward/all_failure_group_rate": 1 / 3,
            "rollout/steps_mean": 8 / 6,
            "rollout/truncated_rate": 0.5,
            "rollout/valid_tool_call_rate": 7 / 8,
            "rollout/admissible_action_rate": 6 / 8,
            "rollout/valid_action_rate": 6 / 8,
            "rollout/invalid_actions_mean": 2 / 6,
            "advantage/groups": 3,
            "advantage/degenerate_group_rate": 2 / 3,
            "requests/sample_count": 9,
            "requests/sample_failed": 4,
            "tokens/sample_prompt": 900,
            "tokens/sampled": 90,
            "failures/dropped_trajectories": 3,
            "failures/left_out_groups": 1,
        }
    )


def test_recipe_09_has_its_own_prefix_and_counts_turns() -> None:
    metrics = rollout_metrics(rollout_of(GROUPS), REWARDS, prefix="trajectory")
    assert metrics["trajectory/turns_mean"] == pytest.approx(8 / 6)
    assert not [name for name in metrics if name.startswith("rollout/")]


def test_a_rollout_of_which_nothing_is_left_has_counts_and_no_rates() -> None:
    metrics = rollout_metrics(rollout_of(()), [], prefix="rollout")
    assert metrics["advantage/groups"] == 0
    assert metrics["failures/left_out_groups"] == 1
    assert "reward/mean" not in metrics


def test_rewards_that_do_not_fit_the_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="5 rewards for 6 trajectories"):
        rollout_metrics(rollout_of(GROUPS), [[1.0, -0.2], [1.0, 1.0], [0.0]], prefix="rollout")
