"""An interrupted evaluation loses nothing, and games of two configurations never meet in one file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from played import game, summary

from agentic_rl.errors import ResultsError
from agentic_rl.results import PartialResults, read_results

GAMES = [game(number, won=number % 2 == 0) for number in range(4)]
PANEL = [record.game_id for record in GAMES]
SETTINGS = {"base_model": "builtin", "temperature": 0.01}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "results" / "base.jsonl"


def play(output: Path, count: int, settings: dict[str, object] | None = None, *, overwrite: bool = False) -> None:
    """Play the first `count` missing games of the panel and stop there."""
    with PartialResults(output, settings or SETTINGS, PANEL, overwrite=overwrite) as partial:
        for record in [record for record in GAMES if record.game_id in partial.missing][:count]:
            partial.add(record)


def finish(output: Path, *, overwrite: bool = False) -> None:
    with PartialResults(output, SETTINGS, PANEL, overwrite=overwrite) as partial:
        for record in reversed(GAMES):
            if record.game_id in partial.missing:
                partial.add(record)
        partial.finish(summary(GAMES))


def test_an_evaluation_goes_on_with_the_games_it_has(output: Path) -> None:
    play(output, 2)
    assert not output.exists()
    with PartialResults(output, SETTINGS, PANEL) as partial:
        assert partial.missing == set(PANEL[2:])


def test_stopping_twice_gives_the_file_of_not_stopping_at_all(output: Path, tmp_path: Path) -> None:
    play(output, 1)
    play(output, 2)
    finish(output)
    finish(tmp_path / "other.jsonl")
    assert output.read_bytes() == (tmp_path / "other.jsonl").read_bytes()
    assert read_results(output).records == tuple(GAMES)
    assert list(output.parent.iterdir()) == [output]


def test_a_kill_in_the_middle_of_a_game_loses_no_finished_one(output: Path) -> None:
    script = f"""
import os, signal
from test_partial import *
partial = PartialResults(Path({str(output)!r}), SETTINGS, PANEL)
partial.add(GAMES[0]); partial.add(GAMES[1])
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    killed = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, check=False)
    assert killed.returncode == -signal.SIGKILL
    with PartialResults(output, SETTINGS, PANEL) as partial:
        assert partial.missing == set(PANEL[2:])


def test_a_line_torn_by_a_crash_costs_that_game_alone(output: Path) -> None:
    play(output, 2)
    partial = output.with_name("base.jsonl.partial")
    partial.write_bytes(partial.read_bytes()[:-20])
    with PartialResults(output, SETTINGS, PANEL) as resumed:
        assert resumed.missing == set(PANEL[1:])
    finish(output)
    assert read_results(output).records == tuple(GAMES)


def test_a_header_torn_by_a_crash_costs_nothing(output: Path) -> None:
    output.parent.mkdir()
    output.with_name("base.jsonl.partial").write_text('{"type": "par')
    finish(output)
    assert read_results(output).records == tuple(GAMES)


def test_a_line_damaged_in_the_middle_is_named_and_nothing_is_thrown_away(output: Path) -> None:
    play(output, 3)
    partial = output.with_name("base.jsonl.partial")
    lines = partial.read_text("utf-8").splitlines()
    lines[2] = lines[2][:50]
    partial.write_text("\n".join(lines) + "\n", "utf-8")
    before = partial.read_bytes()
    with pytest.raises(ResultsError, match="line 3"):
        PartialResults(output, SETTINGS, PANEL)
    assert partial.read_bytes() == before


def test_other_settings_are_refused_by_name_and_the_games_stay(output: Path) -> None:
    play(output, 2)
    with pytest.raises(ResultsError, match=r"other settings \(temperature 0.01 there, 1.0 here\)"):
        PartialResults(output, {**SETTINGS, "temperature": 1.0}, PANEL)
    with PartialResults(output, SETTINGS, PANEL) as partial:
        assert partial.missing == set(PANEL[2:])


def test_other_games_are_other_settings(output: Path) -> None:
    play(output, 2)
    with pytest.raises(ResultsError, match=r"other settings \(panel "):
        PartialResults(output, SETTINGS, PANEL[:3])


def test_overwriting_replaces_a_partial_of_other_settings(output: Path) -> None:
    play(output, 2, {"temperature": 1.0})
    with PartialResults(output, SETTINGS, PANEL, overwrite=True) as partial:
        assert partial.missing == set(PANEL)


def test_overwriting_too_goes_on_with_a_partial_of_the_same_settings(output: Path) -> None:
    finish(output)
    play(output, 3, overwrite=True)
    with PartialResults(output, SETTINGS, PANEL, overwrite=True) as partial:
        assert partial.missing == set(PANEL[3:])


def test_a_finished_file_is_refused_unless_overwriting_is_asked_for(output: Path) -> None:
    finish(output)
    before = output.read_bytes()
    with pytest.raises(ResultsError, match=r"base.jsonl exists. Add --overwrite-output"):
        PartialResults(output, SETTINGS, PANEL)
    assert output.read_bytes() == before
    finish(output, overwrite=True)
    assert output.read_bytes() == before


def test_the_old_file_stays_until_the_new_one_is_whole(output: Path) -> None:
    finish(output)
    before = output.read_bytes()
    play(output, 3, overwrite=True)
    assert output.read_bytes() == before


def test_a_folder_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="is a folder"):
        PartialResults(tmp_path, SETTINGS, PANEL)


def test_a_place_that_takes_no_files_is_no_output(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="file is not a folder that takes new files"):
        PartialResults(tmp_path / "file" / "deeper" / "base.jsonl", SETTINGS, PANEL)


def test_a_second_writer_is_refused(output: Path) -> None:
    with PartialResults(output, SETTINGS, PANEL), pytest.raises(ResultsError, match="another process is writing"):
        PartialResults(output, SETTINGS, PANEL)


def test_an_evaluation_that_finished_no_game_leaves_nothing_behind(output: Path) -> None:
    play(output, 0)
    assert list(output.parent.iterdir()) == []


def test_a_file_that_is_no_partial_is_left_alone(output: Path) -> None:
    output.parent.mkdir()
    output.with_name("base.jsonl.partial").write_text('{"type": "trajectory"}\n')
    with pytest.raises(ResultsError, match="line 1: not the beginning"):
        PartialResults(output, SETTINGS, PANEL, overwrite=True)


def test_an_evaluation_with_missing_games_cannot_be_finished(output: Path) -> None:
    with PartialResults(output, SETTINGS, PANEL) as partial, pytest.raises(ValueError, match="4 games are still"):
        partial.finish(summary(GAMES))
