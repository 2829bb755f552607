"""What the agent is told holds what method.md says it holds, and nothing of a teacher unless there is one."""

from __future__ import annotations

from agentic_rl.dialogue import (
    SYSTEM_PROMPT,
    TOOL_NAME,
    TurnStatus,
    first_message,
    shown_actions,
    tool_message,
    with_skills,
)

ACTIONS = ("go to fridge 1", "look")


def test_the_first_message_has_task_step_observation_actions_and_the_instruction() -> None:
    lines = first_message("put a mug in fridge 1.", "You are in a room.", ACTIONS).split("\n")
    assert "Task: put a mug in fridge 1." in lines
    assert "Step: 0" in lines
    assert "You are in a room." in lines
    assert lines[-4:-1] == ["Available actions:", *ACTIONS]
    assert TOOL_NAME in lines[-1]
    assert "exactly once" in lines[-1]


def test_a_tool_message_has_step_status_observation_and_actions() -> None:
    lines = tool_message(3, TurnStatus.EXECUTED, "You see a mug 1.", ACTIONS).split("\n")
    assert lines == [
        "Step: 3",
        "Status: Action executed.",
        "Observation:",
        "You see a mug 1.",
        "Available actions:",
        *ACTIONS,
    ]


def test_actions_are_left_out_once_the_episode_is_over_or_when_lists_are_off() -> None:
    assert "Available" not in tool_message(3, TurnStatus.TASK_DONE, "You win.", None)
    assert "Available" not in first_message("task", "room", None)
    assert tool_message(3, TurnStatus.EXECUTED, "room", ()).endswith("Available actions:")


def test_help_is_not_shown() -> None:
    assert shown_actions(["go to fridge 1", "help", "look"]) == ACTIONS


def test_the_five_statuses_differ() -> None:
    assert len({status.value for status in TurnStatus}) == 5


def test_skills_stand_in_front_and_no_skills_change_nothing() -> None:
    assert with_skills(SYSTEM_PROMPT, "Skill.").endswith(SYSTEM_PROMPT)
    assert with_skills(SYSTEM_PROMPT, "Skill.").startswith("Skill.")
    assert with_skills(SYSTEM_PROMPT, "") == SYSTEM_PROMPT
