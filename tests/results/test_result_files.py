"""A finished file holds everything or is not there; a file that is not whole says what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from played import evaluation, game, summary

from agentic_rl.errors import ResultsError
from agentic_rl.results import read_results, write_records

GAMES = [
    game(number, won=number % 2 == 0, split=split) for split in ("valid_seen", "valid_unseen") for number in range(3)
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return evaluation(tmp_path / "results" / "base.jsonl", GAMES)


def edit(path: Path, number: int, text: str | None) -> None:
    """Replace line `number` (from 1), or take it out."""
    lines = path.read_text("utf-8").splitlines()
    lines[number - 1 : number] = [] if text is None else [text]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def test_what_was_written_is_read_back(file: Path) -> None:
    results = read_results(file)
    assert list(results.records) == GAMES
    assert results.summary == summary(GAMES)
    assert results.splits == ("valid_seen", "valid_unseen")


def test_the_file_is_one_line_a_game_and_the_summary_last(file: Path) -> None:
    kinds = [json.loads(line)["type"] for line in file.read_text("utf-8").splitlines()]
    assert kinds == ["trajectory"] * 6 + ["summary"]


def test_the_order_in_which_games_ended_leaves_no_trace(file: Path, tmp_path: Path) -> None:
    other = evaluation(tmp_path / "other.jsonl", GAMES[::-1])
    assert other.read_bytes() == file.read_bytes()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        write_records(file, [game(1, won=True, reward=float("nan"))], summary(GAMES))
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_missing_file_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"absent.jsonl does not exist. Make it with eval.py --output"):
        read_results(tmp_path / "absent.jsonl")


def test_an_unfinished_evaluation_is_told_from_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "base.jsonl.partial").write_text("{}\n")
    with pytest.raises(ResultsError, match="not finished yet"):
        read_results(tmp_path / "base.jsonl")


@pytest.mark.parametrize("text", ["{", "[1, 2]", '{"type": "trajectory"', '{"type": "other"}', '"trajectory"', "\x00"])
def test_a_damaged_line_is_named_by_its_number(file: Path, text: str) -> None:
    edit(file, 4, text)
    with pytest.raises(ResultsError, match="line 4"):
        read_results(file)


def test_a_line_that_is_not_utf8_is_named_by_its_number(file: Path) -> None:
    lines = file.read_bytes().split(b"\n")
    lines[1] = b"\xff" + lines[1]
    file.write_bytes(b"\n".join(lines))
    with pytest.raises(ResultsError, match="line 2"):
        read_results(file)


def test_a_file_without_a_summary_was_cut_short(file: Path) -> None:
    edit(file, 7, None)
    with pytest.raises(ResultsError, match="no summary"):
        read_results(file)


def test_two_summaries_are_refused(file: Path) -> None:
    file.write_text(file.read_text("utf-8") + json.dumps(summary(GAMES).to_json()), "utf-8")
    with pytest.raises(ResultsError, match="line 8: a second summary"):
        read_results(file)


def test_a_lost_game_is_noticed(file: Path) -> None:
    edit(file, 2, None)
    with pytest.raises(ResultsError, match="2 games of valid_seen, and its summary counts 3"):
        read_results(file)


def test_a_lost_split_is_noticed(file: Path) -> None:
    for _ in range(3):
        edit(file, 4, None)
    with pytest.raises(ResultsError, match="0 games of valid_unseen, and its summary counts 3"):
        read_results(file)


def test_a_game_that_stands_twice_is_refused(file: Path) -> None:
    edit(file, 2, file.read_text("utf-8").splitlines()[0])
    with pytest.raises(ResultsError, match="trial_000 2 times"):
        read_results(file)


def test_a_file_of_a_summary_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text(json.dumps(summary(GAMES).to_json()) + "\n", "utf-8")
    with pytest.raises(ResultsError, match="holds no games"):
        read_results(path)


def test_line_separators_within_a_text_do_not_break_a_line(tmp_path: Path) -> None:
    strange = "a\u2028b\u0085c\x1ed\ne"
    record = game(1, won=True, task_type=strange)
    assert read_results(evaluation(tmp_path / "strange.jsonl", [record])).records == (record,)
