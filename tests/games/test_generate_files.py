"""Households as files: ALFWorld's own format, read by whoever reads the real games."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from agentic_rl.cli import main
from agentic_rl.errors import DatasetError, MissingExtraError
from agentic_rl.games import discover
from agentic_rl.games.expert import solve
from agentic_rl.games.generate import household_games, write, write_households
from agentic_rl.games.simulator import load_game

needs_alfworld = pytest.mark.skipif(
    importlib.util.find_spec("alfworld") is None, reason="the domain and grammar of a file come from alfworld"
)


@pytest.fixture(autouse=True)
def no_memory_of_other_tests() -> None:
    write._domain_and_grammar.cache_clear()


@needs_alfworld
@pytest.mark.parametrize("difficulty", [1, 5])
def test_written_games_are_found_and_won_by_their_stored_shortest_solution(tmp_path: Path, difficulty: int) -> None:
    files = write_households(tmp_path, "valid_unseen", 12, difficulty, seed=3)
    entries = discover(tmp_path, ["valid_unseen"])
    assert sorted(files) == [entry.path for entry in entries]
    assert {entry.game_id for entry in entries} == {
        entry.game_id for entry in household_games("valid_unseen", 12, difficulty, seed=3)
    }
    for file in files:
        game = load_game(file)
        shortest = solve(game)
        assert shortest is not None
        assert len(game.walkthrough) == len(shortest)
        episode = game.episode()
        assert [episode.step(command).won for command in game.walkthrough] == [False] * (len(shortest) - 1) + [True]


@needs_alfworld
def test_a_file_and_its_entry_are_the_same_game(tmp_path: Path) -> None:
    for entry, file in zip(
        household_games("train", 6, 2, seed=5), write_households(tmp_path, "train", 6, 2, seed=5), strict=True
    ):
        assert load_game(file).episode().reset() == entry.open().reset()


@needs_alfworld
def test_written_files_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    once = write_households(tmp_path / "once", "train", 6, 3, seed=8)
    again = write_households(tmp_path / "again", "train", 6, 3, seed=8)
    assert [file.relative_to(tmp_path / "once") for file in once] == [
        file.relative_to(tmp_path / "again") for file in again
    ]
    assert [file.read_bytes() for file in once] == [file.read_bytes() for file in again]


@needs_alfworld
def test_files_carry_what_the_public_files_carry(tmp_path: Path, sample_root: Path) -> None:
    [made] = write_households(tmp_path, "train", 1, 1, seed=0)
    real = next(iter(sorted(sample_root.rglob("game.tw-pddl"))))
    ours, theirs = (json.loads(file.read_text(encoding="utf-8")) for file in (made, real))
    assert list(ours) == list(theirs)
    assert ours["pddl_domain"] == theirs["pddl_domain"]
    tasks = [next(line for line in game["grammar"].splitlines() if "Your task" in line) for game in (ours, theirs)]
    assert ours["grammar"].replace(tasks[0], tasks[1]) == theirs["grammar"]
    assert ours["solvable"] is True


@needs_alfworld
def test_the_command_line_writes_games_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--split", "valid_seen", "--count", "6", "--difficulty", "2", "--seed", "1"]
    assert main(["games", "generate", "--out", str(tmp_path), *flags]) == 0
    assert capsys.readouterr().out == f"6 games in {tmp_path / 'json_2.1.1' / 'valid_seen'}\n"
    assert len(discover(tmp_path, ["valid_seen"])) == 6


@needs_alfworld
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "json_2.1.1").write_text("a file where a folder should be")
    with pytest.raises(DatasetError, match=r"json_2\.1\.1.*cannot be written"):
        write_households(tmp_path, "train", 1, 1, seed=0)


def test_without_alfworld_files_are_refused_but_households_are_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "alfworld", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="alfworld"):
        write_households(tmp_path, "train", 1, 1, seed=0)
    assert not list(tmp_path.iterdir())
    assert household_games("train", 1, 1, seed=0)[0].open().reset().admissible_actions
