"""What one chat template does, learned once, at start-up, by rendering short conversations of marker words.

A template is a program of somebody else's: it may know no system role, drop a tool message, trim it, quote it as
JSON, insist that roles alternate, put an empty thinking block before generation and drop it from history. Reading
it tells little; running it tells all. So each way of saying a dialogue (a `Dialect`) is tried, the most faithful
first, and the first one whose markers all come back where they belong is the one this template gets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from agentic_rl.dialogue.tool import TOOL_NAME, describe_tools, parse_tool_call
from agentic_rl.errors import TemplateError

type Message = dict[str, Any]

SYSTEM, USER, ANSWER, OBSERVATION, ACTION = "qsystemq", "quserq", "qanswerq", "qobservationq", "qactionq"


def verbatim(text: str) -> str:
    """What most templates do to an observation: nothing."""
    return text


def quoted(text: str) -> str:
    """The inside of a JSON string (Llama 3.1)."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def quoted_strip(text: str) -> str:
    """The inside of a JSON string of the text without the white space around it."""
    return quoted(text.strip())


FITTINGS: tuple[Callable[[str], str], ...] = (verbatim, str.strip, quoted, quoted_strip)
_FITTING_TESTS = (
    f"{OBSERVATION}\nsecond line",
    f"  \t{OBSERVATION} \"a\" 'b' \\ & <c> é\n\nlast line\n \n",
    f"\n<tool_response> {{{{ {OBSERVATION} }}}}",
)
_TURNS_PROBED = 3


class Unfit(Exception):  # noqa: N818 - a finding, not a failure
    """This dialect does not carry the dialogue through this template, and why."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of saying a dialogue in messages.

    Attributes
    ----------
    parts
        Message content is a list of text parts (templates of vision models), not a string.
    system_role
        The system text is a message of its own; otherwise it stands in front of the first user message.
    tool_role
        The environment answers as `tool`; otherwise as `user`.
    native_tools
        The template lists the tools and spells calls in a way that `parse_tool_call` reads; otherwise the system
        text describes the tool and the spelling.
    """

    parts: bool
    system_role: bool
    tool_role: bool
    native_tools: bool = False

    def opening(self, system: str, user: str, tools: Sequence[dict[str, Any]]) -> list[Message]:
        """The messages of the first prompt."""
        if not self.native_tools:
            system = "\n\n".join(filter(None, (system, describe_tools(tools))))
        if self.system_role:
            return [self._message("system", system), self._message("user", user)]
        return [self._message("user", "\n\n".join(filter(None, (system, user))))]

    def turn(self, answer: str, observation: str) -> list[Message]:
        """One assistant turn and the environment's answer."""
        reply = self._message("tool" if self.tool_role else "user", observation)
        return [self.answer(answer), reply | {"name": TOOL_NAME} if self.tool_role else reply]

    def answer(self, text: str) -> Message:
        """An assistant message of plain text."""
        return self._message("assistant", text)

    def _message(self, role: str, text: str) -> Message:
        return {"role": role, "content": [{"type": "text", "text": text}] if self.parts else text}

    def __str__(self) -> str:
        system = "system message" if self.system_role else "system text in the user message"
        return f"{system}, observations as {'tool' if self.tool_role else 'user'}{', parts' if self.parts else ''}"


@dataclass(frozen=True, slots=True)
class Renderer:
    """A tokenizer's chat template as a function from messages to text. Thinking is off."""

    tokenizer: Any
    tools: tuple[dict[str, Any], ...]

    def __call__(self, messages: Sequence[Message], *, native_tools: bool, generate: bool = True) -> str:
        try:
            text = self.tokenizer.apply_chat_template(
                list(messages),
                tools=list(self.tools) if native_tools else None,
                add_generation_prompt=generate,
                tokenize=False,
                enable_thinking=False,
            )
        except Exception as why:  # a template is a foreign program: it may raise anything
            raise Unfit(f"the template raises {type(why).__name__}: {why}") from why
        if not isinstance(text, str):
            raise Unfit("the template does not render to text")
        return text


@dataclass(frozen=True, slots=True)
class Findings:
    """What the probe learned.

    Attributes
    ----------
    before, after
        The text between an assistant's words and the observation, and between the observation and the next
        assistant's words.
    fit
        What the template does to the observation itself.
    ending
        The text that follows an assistant's words when nothing comes after them.
    before_user
        As `before`, if a user message followed.
    native_call_tail
        What follows the argument of a structured call when the call is the last thing said; None if the template
        renders none or if its calls are in our spelling anyway.
    """

    dialect: Dialect
    before: str
    after: str
    fit: Callable[[str], str]
    ending: str
    before_user: str
    native_call_tail: str | None


def probe(render: Renderer, is_token: Callable[[str], bool]) -> Findings:
    """Find the dialect for a template.

    Parameters
    ----------
    is_token
        Whether a text holds a token of the tokenizer's own (an added or special one).

    Raises
    ------
    TemplateError
        No dialect fits; the message says why.
    """
    reasons: dict[str, list[str]] = {}
    for parts, system_role, tool_role in product((False, True), (True, False), (True, False)):
        dialect = Dialect(parts=parts, system_role=system_role, tool_role=tool_role)
        try:
            return _examine(render, dialect, is_token)
        except Unfit as why:
            reasons.setdefault(str(why), []).append(str(dialect))
    told = "; ".join(f"{why} ({' / '.join(dialects[:2])})" for why, dialects in list(reasons.items())[:4])
    raise TemplateError(
        f"this chat template cannot carry the dialogue: {told}",
        hint="Give the tokenizer a template that renders system, user and assistant messages, or take another model.",
    )


def _examine(render: Renderer, dialect: Dialect, is_token: Callable[[str], bool]) -> Findings:
    native = dialect.tool_role and _spells_calls_our_way(render, dialect)
    dialect = Dialect(dialect.parts, dialect.system_role, dialect.tool_role, native)
    opening = dialect.opening(SYSTEM, USER, render.tools)

    def said(*messages: Message, generate: bool = True) -> str:
        return render([*opening, *messages], native_tools=native, generate=generate)

    first = said()
    if first.count(USER) != 1 or first.count(SYSTEM) != 1:
        raise Unfit("the system or the user message is dropped or repeated")
    if first == said(generate=False):
        _check_that_answers_need_no_opening(first, said(dialect.answer(ANSWER), generate=False), is_token)

    bridges = {_bridge(said, dialect, turns) for turns in range(1, _TURNS_PROBED + 1)}
    if len(bridges) != 1:
        raise Unfit("the text between two turns is not the same at every turn")
    before, after = bridges.pop()
    return Findings(
        dialect=dialect,
        before=before,
        after=after,
        fit=_fitting(said, dialect, before, after),
        ending=_after(said(dialect.answer(ANSWER), generate=False), ANSWER),
        before_user=_before_user(said, dialect) or before,
        native_call_tail=None if native else _native_call_tail(render, dialect),
    )


def _bridge(said: Callable[..., str], dialect: Dialect, turns: int) -> tuple[str, str]:
    """The text on both sides of the last observation of a dialogue of so many turns."""
    messages = [
        message for turn in range(1, turns + 1) for message in dialect.turn(f"{ANSWER}{turn}q", f"{OBSERVATION}{turn}q")
    ]
    text = said(*messages)
    before, _, after = _after(text, f"{ANSWER}{turns}q").partition(f"{OBSERVATION}{turns}q")
    if not text.endswith(f"{OBSERVATION}{turns}q{after}") or f"{OBSERVATION}{turns}q" in after:
        raise Unfit("the environment's answer is dropped or repeated")
    return before, after


def _fitting(said: Callable[..., str], dialect: Dialect, before: str, after: str) -> Callable[[str], str]:
    rendered = [(test, _after(said(*dialect.turn(ANSWER, test)), ANSWER)) for test in _FITTING_TESTS]
    for fit in FITTINGS:
        if all(text == f"{before}{fit(test)}{after}" for test, text in rendered):
            return fit
    raise Unfit("the environment's answer is altered in an unknown way")


def _before_user(said: Callable[..., str], dialect: Dialect) -> str | None:
    """The text between an assistant's words and a user message; None if the template wants none there."""
    as_user = Dialect(dialect.parts, dialect.system_role, tool_role=False)
    try:
        return _after(said(*as_user.turn(ANSWER, OBSERVATION)), ANSWER).partition(OBSERVATION)[0]
    except Unfit:
        return None


def _check_that_answers_need_no_opening(first: str, answered: str, is_token: Callable[[str], bool]) -> None:
    """A template may have no generation prompt, but then nothing may stand in front of an assistant's words."""
    opening = _after(answered, USER).partition(ANSWER)[0].removeprefix(_after(first, USER))
    if is_token(opening):
        raise Unfit("nothing opens the assistant's turn: add_generation_prompt is ignored")


def _spells_calls_our_way(render: Renderer, dialect: Dialect) -> bool:
    """Whether the template lists the tools, and writes a structured call as `parse_tool_call` reads it."""
    opening = Dialect(dialect.parts, dialect.system_role, tool_role=True, native_tools=True).opening(SYSTEM, USER, ())
    try:
        if TOOL_NAME not in render(opening, native_tools=True):
            return False
    except Unfit:
        return False
    for text in _structured_calls(render, opening, native_tools=True):
        start, end = text.find("<tool_call>"), text.rfind("</tool_call>")
        if 0 <= start < end and parse_tool_call(text[start:end] + "</tool_call>").action == ACTION:
            return True
    return False


def _native_call_tail(render: Renderer, dialect: Dialect) -> str | None:
    opening = dialect.opening(SYSTEM, USER, render.tools)
    return next((_after(text, ACTION) for text in _structured_calls(render, opening, native_tools=False)), None)


def _structured_calls(render: Renderer, opening: list[Message], *, native_tools: bool) -> Iterator[str]:
    """An assistant message with a structured call, from the user's words on, in the shapes templates ask for."""
    arguments = {"action": ACTION}
    for content, given in product(("", None), (arguments, json.dumps(arguments))):
        call = {"id": "call00000", "type": "function", "function": {"name": TOOL_NAME, "arguments": given}}
        message = {"role": "assistant", "content": content, "tool_calls": [call]}
        try:
            text = render([*opening, message], native_tools=native_tools, generate=False)
            tail = _after(text, USER)
        except Unfit:
            continue
        if tail.count(ACTION) == 1:
            yield tail


def _after(text: str, marker: str) -> str:
    if text.count(marker) != 1:
        raise Unfit("an assistant message is dropped or repeated")
    return text.partition(marker)[2]
