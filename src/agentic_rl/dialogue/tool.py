"""The agent's one tool, how it is told of it, and how a call of it is read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
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

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_XML = re.compile(
    rf"\s*<function={TOOL_NAME}>\s*<parameter=action>(?P<action>.*)</parameter>\s*</function>\s*",
    re.DOTALL | re.IGNORECASE,
)
_XML_MARKUP = re.compile(r"</?(?:parameter|function)\b[=>]", re.IGNORECASE)
_LINE_BREAK = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


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
    reasoning, _, rest = text.partition(_OPEN)
    body, closed, behind = rest.partition(_CLOSE)
    if closed and text.count(_OPEN) == 1 and text.count(_CLOSE) == 1 and not behind.strip():
        action = _clean(_xml_action(body) if body.lstrip()[:9].lower() == "<function" else _json_action(body))
        if action is not None:
            return ToolCall(valid=True, action=action, reasoning=reasoning.strip())
    return ToolCall(valid=False, action=None, reasoning=text.strip())


def describe_tools(tools: Sequence[dict[str, Any]]) -> str:
    """Tools and the JSON spelling of a call, in words: for the system text where a chat template does not do it."""
    if not tools:
        return ""
    lines = ["Tools:"]
    for function in (tool["function"] for tool in tools):
        properties: dict[str, dict[str, str]] = function["parameters"]["properties"]
        call = {"name": function["name"], "arguments": dict.fromkeys(properties, "...")}
        lines.append(f"{function['name']}: {function['description']}")
        lines += [f"- {name} ({about['type']}): {about['description']}" for name, about in properties.items()]
        lines += ["To call it, write this with your own text for the dots:", f"{_OPEN}{json.dumps(call)}{_CLOSE}"]
    return "\n".join(lines)


def _xml_action(body: str) -> str | None:
    match = _XML.fullmatch(body)
    return match["action"] if match and not _XML_MARKUP.search(match["action"]) else None


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


def _clean(action: str | None) -> str | None:
    """The action as the game reads it; None if it is empty, has a line break, or is not text that UTF-8 can hold."""
    action = (action or "").strip()
    if not action or _LINE_BREAK.search(action) or _SURROGATE.search(action):
        return None
    return " ".join(action.lower().split())
