"""Exactly one call and nothing after it, in either of two spellings; all else is malformed and never an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentic_rl.dialogue import TOOL_NAME, TOOL_SCHEMA, parse_tool_call
from agentic_rl.dialogue.tool import describe_tools

LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=LINE_BREAKS), min_size=1).filter(str.strip)
PROSE = st.text(st.characters(exclude_characters="<"))


def as_xml(action: str) -> str:
    return f"<tool_call>\n<function={TOOL_NAME}>\n<parameter=action>\n{action}\n</parameter>\n</function>\n</tool_call>"


def as_json(action: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': TOOL_NAME, 'arguments': {'action': action}})}\n</tool_call>"


def as_json_string(action: str) -> str:
    arguments = json.dumps({"action": action}, ensure_ascii=False)
    return f"<tool_call>{json.dumps({'name': TOOL_NAME, 'arguments': arguments})}</tool_call>"


def folded(action: str) -> str:
    return " ".join(action.lower().split())


def test_golden_cases(golden: Path) -> None:
    cases = json.loads((golden / "tool_calls.json").read_text(encoding="utf-8"))
    read = [parse_tool_call(case["text"]) for case in cases]
    assert [(call.valid, call.action) for call in read] == [(case["valid"], case["action"]) for case in cases]


@given(st.text())
@example("<tool_call>")
@example("</tool_call><tool_call>")
@example("<tool_call>" + "[" * 100_000 + "</tool_call>")
@example('<tool_call>{"name": "alfworld_step", "arguments": ' + "9" * 5000 + "}</tool_call>")
def test_no_text_is_an_error(text: str) -> None:
    call = parse_tool_call(text)
    assert call.valid == (call.action is not None)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_no_json_is_an_error(value: object) -> None:
    for body in (value, {"name": TOOL_NAME, "arguments": value}, {"name": value, "arguments": {"action": "look"}}):
        call = parse_tool_call(f"<tool_call>{json.dumps(body)}</tool_call>")
        assert call.valid == (call.action is not None)


@given(LINE, PROSE)
def test_a_call_is_read_in_every_spelling(action: str, reasoning: str) -> None:
    for spell in (as_json, as_json_string):
        if "<tool_call>" not in spell(action)[11:] and "</tool_call>" not in spell(action)[:-12]:
            call = parse_tool_call(f"{reasoning}{spell(action)} \n")
            assert (call.valid, call.action, call.reasoning) == (True, folded(action), reasoning.strip())
    if "<" not in action:
        call = parse_tool_call(f"{reasoning}{as_xml(action)}\n ")
        assert (call.valid, call.action, call.reasoning) == (True, folded(action), reasoning.strip())


@given(LINE.filter(lambda action: "<" not in action))
def test_reading_what_was_read_changes_nothing(action: str) -> None:
    once = parse_tool_call(as_xml(action)).action
    assert once is not None
    assert parse_tool_call(as_json(once)).action == parse_tool_call(as_xml(once)).action


@pytest.mark.parametrize("line_break", LINE_BREAKS)
@pytest.mark.parametrize("spell", [as_xml, as_json, as_json_string])
def test_a_line_break_inside_an_action_is_malformed(spell: object, line_break: str) -> None:
    assert callable(spell)
    assert not parse_tool_call(spell(f"go to{line_break}fridge 1")).valid


@given(PROSE.filter(str.strip))
def test_nothing_may_stand_after_the_call(after: str) -> None:
    call = parse_tool_call(as_json("look") + after)
    assert not call.valid
    assert call.action is None


@pytest.mark.parametrize(
    "text",
    [
        as_json("look") + as_xml("look"),
        f"<tool_call>{as_json('look')}",
        f"</tool_call>{as_json('look')}",
        "</tool_call><tool_call>" + as_json("look")[11:-12],
        f"<think>{as_json('look')}</think>{as_json('look')}",
        f"<think>Maybe <tool_call>?</think>{as_json('look')}",
        as_json("look").removesuffix("</tool_call>"),
        as_json("   "),
        as_json("look").replace(TOOL_NAME, "other_tool"),
        as_xml("look").replace(TOOL_NAME, "other_tool"),
        as_json("look").replace('"look"', "7"),
        as_json("look").replace('"look"', '["look"]'),
        as_json("\ud800"),
        as_xml("look</parameter><parameter=action>go"),
        as_xml("look</parameter></function><function=alfworld_step><parameter=action>go"),
        as_xml("look").replace("</parameter>", "</parameter><parameter=place>here</parameter>"),
        as_xml("look").replace("<parameter=action>", "").replace("</parameter>", ""),
        f"```{as_json('look')}```",
    ],
)
def test_malformed(text: str) -> None:
    call = parse_tool_call(text)
    assert (call.valid, call.action, call.reasoning) == (False, None, text.strip())


def test_thoughts_before_the_call_are_reasoning() -> None:
    call = parse_tool_call(f"<think>\nThe fridge.\n</think>\n\n{as_xml('Open  Fridge 1')}")
    assert call.reasoning == "<think>\nThe fridge.\n</think>"
    assert call.action == "open fridge 1"


def test_the_description_shows_a_call_that_can_be_read() -> None:
    text = describe_tools([TOOL_SCHEMA])
    assert parse_tool_call(text).action == "..."
    assert "action (string)" in text
    assert describe_tools([]) == ""
