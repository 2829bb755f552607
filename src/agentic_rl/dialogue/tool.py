"""The agent's one tool, and how a call of it is read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

TOOL_NAME = "alfworld_step"

TOOL_SCHEMA: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Take one action in the household.",
        "parameters": {
            "type": "object",
            "properties": {"action": {"type": "string", "description": "The action, word for word."}},
            "required": ["action"],
        },
    },
}

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_XML = re.compile(
    rf"\s*<function={TOOL_NAME}>\s*<parameter=action>(?P<action>.*?)</parameter>\s*</function>\s*",
    re.DOTALL | re.IGNORECASE,
)
_LINE_BREAK = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One assistant turn, read.

    Attributes
    ----------
    valid
        The turn holds exactly one call of the tool and nothing after it.
    action
        Lower case, white space folded; None if the turn is malformed.
    reasoning
        What stood before the call (all of the text if there is none).
    """

    valid: bool
    action: str | None
    reasoning: str


def parse_tool_call(text: str) -> ToolCall:
    """Read one assistant turn (method.md, section 2; `golden/tool_calls.json` has cases).

    Two spellings count: Qwen3.5's XML form and the JSON form of other models. Never raises.
    """
    malformed = ToolCall(valid=False, action=None, reasoning=text.strip())
    if text.count("<tool_call>") != 1 or text.count("</tool_call>") != 1:
        return malformed
    call = _CALL.search(text)
    if call is None or text[call.end() :].strip():
        return malformed
    action = _xml_action(call[1]) if "<function" in call[1].lower()[:64] else None
    if action is None:
        action = _json_action(call[1])
    if action is None:
        return malformed
    action = action.strip()
    if not action or _LINE_BREAK.search(action):
        return malformed
    return ToolCall(valid=True, action=" ".join(action.lower().split()), reasoning=text[: call.start()].strip())


def _xml_action(body: str) -> str | None:
    match = _XML.fullmatch(body)
    if match is None or "<parameter=" in match["action"].lower():
        return None
    return match["action"]


def _json_action(body: str) -> str | None:
    try:
        call = json.loads(body)
        arguments: Any = call["arguments"] if call["name"] == TOOL_NAME else None
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        action = arguments["action"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return action if isinstance(action, str) else None
