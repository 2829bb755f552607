"""The record of a game survives the file, whatever it holds; a damaged one is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played import game, step, summary

from agentic_rl.errors import ResultsError
from agentic_rl.results import StepRecord, Summary, TrajectoryRecord
from agentic_rl.results.files import json_line

numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(min_value=0, max_value=2**40)
texts = st.text(st.characters(codec=None))  # lone surrogates too: a model may write any escape into its call
steps = st.builds(
    StepRecord,
    admissible_actions=st.lists(texts, max_size=3).map(tuple),
    assistant_text=texts,
    action=st.none() | texts,
    environment_score=numbers,
    mean_old_logprob=st.none() | numbers,
)
messages = st.lists(st.dictionaries(st.sampled_from(["role", "content"]), texts), max_size=3).map(tuple)
records = st.builds(
    TrajectoryRecord,
    messages=messages,
    steps=st.lists(steps, max_size=2).map(tuple),
    reward=numbers,
    expert_steps=st.none() | counts,
)
summaries = st.builds(
    Summary,
    metrics=st.dictionaries(st.text(), numbers),
    settings=st.none() | st.just({"seed": 42}),
    usage=st.none() | st.just({"games": 3, "sample_tokens": 1200}),
)

PUBLISHED = (
    "evaluation_split game_id game_file split task_type group_id group_index task initial_observation messages won "
    "truncated stop_reason invalid_action_count reward steps"
)
PUBLISHED_STEP = (
    "step observation admissible_actions assistant_text call_id action valid_format admissible valid_action "
    "tool_response next_observation environment_score done won prompt_tokens completion_tokens mean_old_logprob"
)


def through_json(value: Any) -> Any:
    return json.loads(json_line(value.to_json()).encode())


@given(records)
@settings(max_examples=50, deadline=None)
def test_any_record_is_read_back_equal(record: TrajectoryRecord) -> None:
    assert TrajectoryRecord.from_json(through_json(record), "here") == record


@given(summaries)
def test_any_summary_is_read_back_equal(value: Summary) -> None:
    assert Summary.from_json(through_json(value), "here") == value


def test_the_published_names_are_the_names_in_the_file_in_their_order() -> None:
    line = game(1, won=True).to_json()
    assert " ".join(line) == f"type {PUBLISHED}"
    assert " ".join(line["steps"][0]) == PUBLISHED_STEP
    assert " ".join(summary([game(1, won=True)]).to_json()) == "type base_model model_path skill_free metrics"


def test_what_is_known_of_the_expert_stands_beside_the_published_names() -> None:
    assert game(1, won=True, expert_steps=4).to_json()["expert_steps"] == 4


def test_names_added_by_other_tools_are_no_obstacle() -> None:
    line = through_json(game(1, won=True)) | {"colour": "blue"}
    assert TrajectoryRecord.from_json(line, "here") == game(1, won=True)


@pytest.mark.parametrize("name", PUBLISHED.split(" "))
def test_a_missing_field_is_named(name: str) -> None:
    line = through_json(game(1, won=True))
    del line[name]
    with pytest.raises(ResultsError, match=f"here: the field '{name}' is missing"):
        TrajectoryRecord.from_json(line, "here")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("won", 1),
        ("won", "true"),
        ("group_index", True),
        ("group_index", 0.5),
        ("reward", "1"),
        ("reward", None),
        ("game_id", 3),
        ("steps", {}),
        ("steps", [1]),
        ("messages", "none"),
        ("expert_steps", "4"),
    ],
)
def test_a_field_of_another_kind_is_named(name: str, value: object) -> None:
    line = through_json(game(1, won=True)) | {name: value}
    with pytest.raises(ResultsError, match=f"here: the field '{name}' should be"):
        TrajectoryRecord.from_json(line, "here")


def test_the_damaged_turn_is_named() -> None:
    line = through_json(game(1, won=False, steps=[step(1), step(2)]))
    line["steps"][1]["admissible_actions"] = [1]
    with pytest.raises(ResultsError, match="here, step 2: the field 'admissible_actions'"):
        TrajectoryRecord.from_json(line, "here")
