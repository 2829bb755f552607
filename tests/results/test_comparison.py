"""Checkpoints are compared game by game, and only where that is fair."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from played import evaluation, game, summary

from agentic_rl.errors import ResultsError
from agentic_rl.results import compare, differing_settings, read_results, require_comparable, write_records

BEFORE = [game(number, won=number < 4) for number in range(10)]
AFTER = [game(number, won=number != 0 and number < 8) for number in range(10)]


def test_the_difference_counts_games_gained_and_lost() -> None:
    comparison = compare(BEFORE, AFTER[::-1])
    assert (comparison.games, comparison.before, comparison.after) == (10, 0.4, 0.7)
    assert (comparison.gained, comparison.lost) == (4, 1)
    assert comparison.difference == pytest.approx(0.3)
    assert comparison.interval.low < 0.3 < comparison.interval.high
    assert comparison.p_value == pytest.approx(2 * 6 / 32)


def test_different_games_cannot_be_compared() -> None:
    with pytest.raises(ResultsError, match=r"10 and 9, 9 of them shared; valid_seen:.*trial_009 is in one only"):
        compare(BEFORE, AFTER[:-1])


def test_files_of_the_same_games_and_base_model_are_comparable(tmp_path: Path) -> None:
    files = [evaluation(tmp_path / "a.jsonl", BEFORE), evaluation(tmp_path / "b.jsonl", AFTER)]
    require_comparable([read_results(file) for file in files])


def test_files_of_different_games_are_named(tmp_path: Path) -> None:
    files = [evaluation(tmp_path / "a.jsonl", BEFORE), evaluation(tmp_path / "b.jsonl", AFTER[:-1])]
    with pytest.raises(ResultsError, match=r"a.jsonl and .*b.jsonl hold different games"):
        require_comparable([read_results(file) for file in files])


def test_files_of_different_base_models_are_named(tmp_path: Path) -> None:
    files = [evaluation(tmp_path / "a.jsonl", BEFORE), evaluation(tmp_path / "b.jsonl", AFTER, base_model="other")]
    with pytest.raises(ResultsError, match=r"a.jsonl and .*b.jsonl are of different base models \(builtin and other\)"):
        require_comparable([read_results(file) for file in files])


def test_a_file_played_with_skills_is_named(tmp_path: Path) -> None:
    first = evaluation(tmp_path / "a.jsonl", BEFORE)
    second = tmp_path / "b.jsonl"
    write_records(second, AFTER, summary(AFTER, skill_free=False))
    with pytest.raises(ResultsError, match=r"only .*b.jsonl was played with skills"):
        require_comparable([read_results(file) for file in (first, second)])


def test_settings_that_differ_are_told_and_the_checkpoint_is_none_of_them(tmp_path: Path) -> None:
    files = []
    for name, temperature in (("a", 0.01), ("b", 1.0)):
        settings = {"seed": 42, "temperature": temperature, "model_path": name, "weights": name}
        write_records(tmp_path / name, BEFORE, replace(summary(BEFORE), settings=settings))
        files.append(read_results(tmp_path / name))
    assert differing_settings(files) == {"temperature": (0.01, 1.0)}
    assert differing_settings([files[0], files[0]]) == {}


def test_files_that_do_not_say_how_they_were_played_differ_in_nothing(tmp_path: Path) -> None:
    says_nothing = read_results(evaluation(tmp_path / "a.jsonl", BEFORE))
    write_records(tmp_path / "b.jsonl", BEFORE, replace(summary(BEFORE), settings={"seed": 42}))
    assert differing_settings([says_nothing, read_results(tmp_path / "b.jsonl")]) == {}
