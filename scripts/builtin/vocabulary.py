"""What the builtin model's tokenizer holds as one token: names, numbers, and the phrases of this world.

The names were counted in the 3,553 training games (every base name that occurs in an initial fact).
"""

from __future__ import annotations

import json
from pathlib import Path

from agentic_rl.dialogue.prompts import INSTRUCTION, SYSTEM_PROMPT, TurnStatus
from agentic_rl.dialogue.tool import TOOL_NAME, TOOL_SCHEMA

NAMES = Path(__file__).with_name("names.txt").read_text(encoding="utf-8").split()
"""Base names of objects and receptacles."""

NUMBERS = range(100)

VERBS = (
    *(
        "clean",
        "close",
        "cool",
        "examine",
        "go to",
        "heat",
        "inventory",
        "look",
        "move",
        "open",
        "slice",
        "take",
        "use",
    ),
)
"""How commands begin."""

CALL_HEAD = f"<tool_call>\n<function={TOOL_NAME}>\n<parameter=action>"
CALL_TAIL = "\n</parameter>\n</function>\n</tool_call>"
"""A call is head, newline and action, tail. The newline belongs to the verb's token, as it does in the list of
available actions, so that a call repeats the very tokens of a line of that list."""

ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>", "<|pad|>")


def phrases() -> list[str]:
    """Fixed pieces of text, each one token."""
    room = "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see"
    game = [
        *(room, room + " a", "\n\nYour task is to:", "You arrive at", ". On the", "On the", ". The", "The"),
        *(", you see", ", you see a", ", you see nothing.", " is closed.", " is open. In it, you see"),
        *(" is open. In it, you see a", " is open. In it, you see nothing.", "You open the", "You close the"),
        *("You pick up the", " from the", "You move the", " to the", "You clean the", "You heat the", "You cool the"),
        *(" using the", "You turn on the", "You sliced the", " with the", "You are carrying: a"),
        *("You are not carrying anything.", "You are facing the", ". Next to it, you see", "Nothing happens."),
        *("There's nothing special about", "This is a", "This is a normal", ". In it, you see", ". In it, you see a"),
        *(", a", ", and a", ", and"),
    ]
    sentences = [part if i == 0 else f" {part}" for i, part in enumerate(SYSTEM_PROMPT.split(". "))]
    sentences = [part + "." if i < len(sentences) - 1 else part for i, part in enumerate(sentences)]
    dialogue = [
        *sentences,
        *("\n\nTools:\n", json.dumps(TOOL_SCHEMA), "Task:", "Step:", "\nStep:", "\nObservation:\n"),
        *(f"\nStatus: {status.value}\nObservation:\n" for status in TurnStatus),
        *("\nAvailable actions:", f"\n{INSTRUCTION}", CALL_HEAD, CALL_TAIL),
        *("\n" + verb for verb in VERBS),
        "\n\n",
    ]
    return list(dict.fromkeys([*dialogue, *game]))


def words() -> list[str]:
    """English words that are one token with the blank before them: task sentences, skill texts, everyday English."""
    return Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split()
