"""Dialogue: how the agent talks.

Prompts of our own wording, the tool call and its parser, and the token-exact transcript. It knows no games beyond
an observation and a list of actions, and no model beyond its tokenizer.
"""

from agentic_rl.dialogue.chat_format import ChatFormat
from agentic_rl.dialogue.prompts import (
    INSTRUCTION,
    SYSTEM_PROMPT,
    TurnStatus,
    first_message,
    shown_actions,
    tool_message,
    with_skills,
)
from agentic_rl.dialogue.tool import TOOL_NAME, TOOL_SCHEMA, ToolCall, parse_tool_call
from agentic_rl.dialogue.transcript import Transcript

__all__ = [
    "INSTRUCTION",
    "SYSTEM_PROMPT",
    "TOOL_NAME",
    "TOOL_SCHEMA",
    "ChatFormat",
    "ToolCall",
    "Transcript",
    "TurnStatus",
    "first_message",
    "parse_tool_call",
    "shown_actions",
    "tool_message",
    "with_skills",
]
