"""What the agent is told: the system prompt, the first message, and the answer to every action."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from agentic_rl.dialogue.tool import TOOL_NAME

SYSTEM_PROMPT = (
    "You act in a household that you know only through text. Work towards the task one action at a time. "
    f"In every turn call the tool {TOOL_NAME} exactly once, with one action, and write nothing after the call. "
    "When available actions are listed, the action must be one of them, word for word."
)

INSTRUCTION = f"Call {TOOL_NAME} exactly once."


class TurnStatus(StrEnum):
    """The status line of a tool message."""

    TASK_DONE = "The task is done."
    EPISODE_OVER = "The episode is over."
    MALFORMED = f"Malformed call: nothing happened. Call {TOOL_NAME} exactly once."
    NOT_ADMISSIBLE = "That action is not available now."
    EXECUTED = "Action executed."


def first_message(task: str, observation: str, actions: Sequence[str] | None, *, step: int = 0) -> str:
    """The user message that opens an episode. `actions` None leaves the list out."""
    lines = [f"Task: {task}", f"Step: {step}", "Observation:", observation, *_listed(actions), INSTRUCTION]
    return "\n".join(lines)


def tool_message(step: int, status: TurnStatus, observation: str, actions: Sequence[str] | None) -> str:
    """The answer to one action. `actions` is None once the episode is over or when lists are off."""
    lines = [f"Step: {step}", f"Status: {status.value}", "Observation:", observation, *_listed(actions)]
    return "\n".join(lines)


def with_skills(system: str, skills: str) -> str:
    """The teacher's system prompt: the skills in front, the rest unchanged. No skills, no change."""
    return f"{skills}\n\n{system}" if skills else system


def shown_actions(admissible: Iterable[str]) -> tuple[str, ...]:
    """The admissible actions an agent is shown: all but `help`."""
    return tuple(action for action in admissible if action != "help")


def _listed(actions: Sequence[str] | None) -> list[str]:
    return [] if actions is None else ["Available actions:", *actions]
