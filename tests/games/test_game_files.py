"""A damaged game file gives one clear line that names the file and the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentic_rl.errors import GameFileError
from agentic_rl.games import UnknownGameError, load_game


@pytest.fixture(scope="module")
def record(sample_root: Path) -> dict[str, Any]:
    return json.loads(min(sample_root.rglob("game.tw-pddl")).read_text())


def fault_of(path: Path, text: str | bytes) -> str:
    """What loading a file with this content complains about; it must be one line that begins with the path."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(GameFileError) as caught:
        load_game(path)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(str(path))
    return line.removeprefix(str(path))


def with_problem(record: dict[str, Any], problem: str) -> str:
    return json.dumps({**record, "pddl_problem": problem})


def line_of(problem: str, text: str) -> int:
    return problem[: problem.index(text)].count("\n") + 1


def test_a_sound_file_loads(record: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(record))
    assert load_game(path).walkthrough == tuple(record["walkthrough"])


@pytest.mark.parametrize("kept", [0, 1, 100, 30_000])
def test_cut_off(record: dict[str, Any], tmp_path: Path, kept: int) -> None:
    fault = fault_of(tmp_path / "game.tw-pddl", json.dumps(record)[:kept])
    assert "not whole JSON" in fault
    assert "line 1 column" in fault
    assert "alfworld-download" in fault


@pytest.mark.parametrize("text", ["PK\x03\x04", "<html>", "[]", "12", '"text"', b"\xff\xfe\x00game"])
def test_not_a_json_object(tmp_path: Path, text: str | bytes) -> None:
    assert any(
        word in fault_of(tmp_path / "game.tw-pddl", text) for word in ("not whole JSON", "no JSON object", "UTF-8")
    )


@pytest.mark.parametrize("key", ["pddl_domain", "grammar", "pddl_problem"])
@pytest.mark.parametrize("change", ["missing", "a number"])
def test_a_key_that_is_missing_or_of_the_wrong_kind(
    record: dict[str, Any], tmp_path: Path, key: str, change: str
) -> None:
    damaged = {name: value for name, value in record.items() if name != key}
    if change == "a number":
        damaged[key] = 7
    assert f"the key '{key}' is" in fault_of(tmp_path / "game.tw-pddl", json.dumps(damaged))


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "game.tw-pddl", tmp_path):
        with pytest.raises(GameFileError, match="cannot be read"):
            load_game(path)


def a_fact(problem: str) -> str:
    return next(line.strip() for line in problem.splitlines() if line.strip().startswith("(pickupable"))


def test_a_fact_that_is_never_closed(record: dict[str, Any], tmp_path: Path) -> None:
    problem = record["pddl_problem"]
    fact = a_fact(problem)
    fault = fault_of(tmp_path / "game.tw-pddl", with_problem(record, problem.replace(fact, fact[:-1], 1)))
    assert f"pddl_problem line {line_of(problem, fact)}: not a fact: '(pickupable" in fault


def test_a_fact_that_is_never_opened(record: dict[str, Any], tmp_path: Path) -> None:
    problem = record["pddl_problem"]
    fact = a_fact(problem)
    fault = fault_of(tmp_path / "game.tw-pddl", with_problem(record, problem.replace(fact, fact[1:], 1)))
    assert f"pddl_problem line {line_of(problem, fact)}: not a fact: 'pickupable" in fault


def test_a_fact_that_is_closed_twice(record: dict[str, Any], tmp_path: Path) -> None:
    problem = record["pddl_problem"]
    fact = a_fact(problem)
    fault = fault_of(tmp_path / "game.tw-pddl", with_problem(record, problem.replace(fact, fact + ")", 1)))
    assert f"pddl_problem line {line_of(problem, fact)}: not a fact: ')'" in fault


def test_a_parenthesis_lost_or_gained_after_the_facts(record: dict[str, Any], tmp_path: Path) -> None:
    problem = record["pddl_problem"].rstrip()
    last = problem.count("\n") + 1
    fault = fault_of(tmp_path / "game.tw-pddl", with_problem(record, problem[:-1]))
    assert "the text ends with 1 ')' too few" in fault
    fault = fault_of(tmp_path / "game.tw-pddl", with_problem(record, problem + ")"))
    assert f"pddl_problem line {last}: a ')' without its '('" in fault


@pytest.mark.parametrize("section", ["(:objects", "(:init", "(:goal"])
def test_a_section_that_is_never_opened(record: dict[str, Any], tmp_path: Path, section: str) -> None:
    problem = record["pddl_problem"]
    fault = fault_of(tmp_path / "game.tw-pddl", with_problem(record, problem.replace(section, section[1:], 1)))
    assert "a ')' without its '('" in fault or "no (:init …) before a (:goal …)" in fault


@pytest.mark.parametrize(
    ("fact", "complaint"),
    [
        ("(flies Apple_bar_1)", "unknown predicate 'flies'"),
        ("(Holds agent1 Apple_bar_1)", "unknown predicate 'Holds'"),
        ("(pickupable a b)", "'pickupable' takes 1, not 2"),
        ("(inReceptacle a)", "'inReceptacle' takes 2, not 1"),
        ("stray", "not a fact: 'stray'"),
        ("()", "not a fact: '()'"),
    ],
)
def test_a_fact_that_cannot_be(record: dict[str, Any], tmp_path: Path, fact: str, complaint: str) -> None:
    problem = record["pddl_problem"]
    place = line_of(problem, "(:init")
    damaged = problem.replace("(:init", f"(:init\n{fact}", 1)
    fault = fault_of(tmp_path / "game.tw-pddl", with_problem(record, damaged))
    assert f"pddl_problem line {place + 1}: {complaint}" in fault


@pytest.mark.parametrize(
    ("gone", "complaint"),
    [
        ("(receptacleAtLocation", "never says its type or where it is"),
        ("(receptacleType", "never says its type or where it is"),
        ("(objectType", "never says its type or where it is"),
        ("(atLocation", "has no fact 'atlocation'"),
    ],
)
def test_a_thing_without_what_it_needs(record: dict[str, Any], tmp_path: Path, gone: str, complaint: str) -> None:
    lines = record["pddl_problem"].splitlines()
    init = next(number for number, line in enumerate(lines) if "(:init" in line)
    first = next(number for number, line in enumerate(lines) if number > init and line.strip().startswith(gone))
    fault = fault_of(tmp_path / "game.tw-pddl", with_problem(record, "\n".join(lines[:first] + lines[first + 1 :])))
    assert complaint in fault


def test_an_agent_at_two_places(record: dict[str, Any], tmp_path: Path) -> None:
    damaged = record["pddl_problem"].replace("(:init", "(:init (atLocation agent1 loc_bar_nowhere)", 1)
    assert "two values of 'atlocation'" in fault_of(tmp_path / "game.tw-pddl", with_problem(record, damaged))


@pytest.mark.parametrize("key", ["pddl_domain", "grammar"])
def test_other_rules_are_not_simulated(record: dict[str, Any], tmp_path: Path, key: str) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps({**record, key: record[key] + " "}))
    with pytest.raises(UnknownGameError, match=f"{key} is not ALFWorld's"):
        load_game(path)


def test_another_goal_is_not_simulated(record: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_text(with_problem(record, record["pddl_problem"].replace("(exists", "(forall", 1)))
    with pytest.raises(UnknownGameError, match="none of the six known forms"):
        load_game(path)
