"""The metrics of an evaluation, computed by hand."""

from __future__ import annotations

import pytest
from played import game, step

from agentic_rl.results import summarize

SEEN = [
    game(1, won=True, steps=[step(1), step(2, won=True)], expert_steps=2),
    game(2, won=True, steps=[step(1), step(2), step(3, won=True)], expert_steps=2, reward=0.9),
    game(
        3,
        won=False,
        steps=[step(1, valid_format=False, admissible=False), step(2, admissible=False), step(3)],
        task_type="look_at_obj_in_light",
        reward=-0.2,
        expert_steps=1,
    ),
]


def test_every_metric_of_a_split() -> None:
    assert summarize(SEEN) == pytest.approx(
        {
            "eval/valid_seen/reward_mean": 1.7 / 3,
            "eval/valid_seen/success_rate": 2 / 3,
            "eval/valid_seen/steps_mean": 8 / 3,
            "eval/valid_seen/truncated_rate": 1 / 3,
            "eval/valid_seen/valid_tool_call_rate": 7 / 8,
            "eval/valid_seen/admissible_action_rate": 6 / 8,
            "eval/valid_seen/invalid_actions_mean": 2 / 3,
            "eval/valid_seen/games": 3,
            "eval/valid_seen/success_rate/pick_and_place_simple": 1.0,
            "eval/valid_seen/success_rate/look_at_obj_in_light": 0.0,
            "eval/valid_seen/steps_over_expert": (2 / 2 + 3 / 2) / 2,
        }
    )


def test_splits_are_kept_apart() -> None:
    metrics = summarize([*SEEN, game(1, won=True, split="valid_unseen")])
    assert metrics["eval/valid_seen/success_rate"] == pytest.approx(2 / 3)
    assert metrics["eval/valid_unseen/success_rate"] == 1
    assert metrics["eval/valid_unseen/games"] == 1


def test_nothing_is_said_of_an_expert_who_is_not_known() -> None:
    assert "eval/valid_seen/steps_over_expert" not in summarize([game(1, won=True)])
    assert "eval/valid_seen/steps_over_expert" not in summarize([game(1, won=False, expert_steps=3)])


def test_a_game_that_ended_before_its_first_turn_counts_as_lost() -> None:
    metrics = summarize([game(1, won=False, steps=[])])
    assert metrics["eval/valid_seen/success_rate"] == 0
    assert metrics["eval/valid_seen/valid_tool_call_rate"] == 0
    assert metrics["eval/valid_seen/steps_mean"] == 0
