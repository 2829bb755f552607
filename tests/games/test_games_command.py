"""`agentic-rl games` as typed in a terminal."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from agentic_rl.cli import main


def lines_of(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> list[str]:
    assert main(argv) == code
    return capsys.readouterr().out.splitlines()


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert told.err.count("\n") == 1
    return told.err.removeprefix("error: ").strip()


def type_in(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))


def test_list_counts_by_split_and_type(sample_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header, *rows = lines_of(capsys, "games", "list", "--data-root", str(sample_root))
    assert header.split() == ["train", "valid_seen", "valid_unseen", "all"]
    assert rows[0].split() == ["pick_and_place_simple", "2", "1", "1", "4"]
    assert rows[-1].split() == ["all", "12", "6", "6", "24"]


def test_list_ids_and_show_mean_the_same_game(sample_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data-root", str(sample_root)]
    *_, last = lines_of(capsys, "games", "list", "--ids", "--split", "valid_seen", *data)
    number, game_id = last.split()
    by_number = lines_of(capsys, "games", "show", number, "--split", "valid_seen", *data)
    assert by_number[0] == game_id
    assert lines_of(capsys, "games", "show", game_id, *data) == by_number
    path = by_number[1].strip()
    assert lines_of(capsys, "games", "show", path) == by_number
    assert lines_of(capsys, "games", "show", str(Path(path).parent)) == by_number


def test_show_names_goal_receptacles_objects_and_the_shortest_solution(
    sample_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "\n".join(lines_of(capsys, "games", "show", "0", "--data-root", str(sample_root)))
    assert "Your task is to: look at " in page
    assert "Wins: hold one of [" in page
    assert "receptacles at" in page
    assert "toggleable" in page
    assert "  > go to " in page


def test_generated_games_need_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    page = lines_of(capsys, "games", "show", "0", "--games", "household:1", "--split", "valid_seen")
    assert page[0].startswith("valid_seen:")


def test_playing_by_hand_with_undo_to_a_win(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    game = ["0", "--games", "household:1", "--split", "valid_seen"]
    solution = [line[4:] for line in lines_of(capsys, "games", "show", *game) if line.startswith("  > ")]
    first, *rest = solution
    type_in(
        monkeypatch,
        "undo",
        "fly",
        first,
        "undo",
        "hint",
        "actions",
        "",
        f"  {first} ",
        *rest,
        "hint",
        "restart",
        "hint",
    )
    page = "\n".join(lines_of(capsys, "games", "play", *game))
    told = page.split("\n> ")[1:]
    assert told[0].startswith("There is nothing to take back.")
    assert told[1].startswith("Nothing happens.")
    assert told[3].startswith(f"Took back `{first}`.")
    assert told[4].startswith(f"{first} ({len(solution)} to go)")
    assert "\nlook\n" in told[5]
    won = told[6 + len(solution)]
    assert f"Won after {len(solution)} commands; the shortest way takes {len(solution)}." in won
    assert told[7 + len(solution)].startswith("It is won.")
    assert told[8 + len(solution)].startswith("-= Welcome to TextWorld, ALFRED! =-")
    assert told[9 + len(solution)].startswith(f"{first} ({len(solution)} to go)")


def test_quit_leaves(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, "quit", "look")
    page = lines_of(capsys, "games", "play", "0", "--games", "household:1", "--split", "valid_seen")
    assert not any("Looking quickly around you, you see nothing" in line for line in page)


def test_check_plays_both_engines_and_prints_what_it_found(
    sample_root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("textworld")
    monkeypatch.setattr("agentic_rl.games.check.probe_scripts", lambda game: {"a probe": ["look", "help"]})
    printed = lines_of(
        capsys, "games", "check", "--games", "1", "--steps", "5", "--seed", "3", "--data-root", str(sample_root)
    )
    assert printed[-4:-1] == ["games       1", "steps       7 and 2 resets", "mismatches  0"]
    assert printed[-1].endswith(" times")
    assert "0 mismatches" in printed[0]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["games", "nix"], "invalid choice: 'nix'"),
        (["nix"], "invalid choice: 'nix'"),
        (["games", "play"], "the following arguments are required: GAME"),
        (["games", "check", "--games", "0"], "'0' is not a whole number above 0"),
        (["games", "list", "--games", "chess"], "chess is unknown"),
        (["games", "show", "7", "--data-root", "nowhere"], "there is no dataset at nowhere"),
        (
            ["games", "show", "9999", "--games", "household:1", "--split", "valid_seen"],
            "'9999' is none of the ",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint in error_of(capsys, *argv)


def test_a_damaged_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "game.tw-pddl").write_text("{")
    assert "not whole JSON" in error_of(capsys, "games", "show", str(tmp_path))


def test_help_is_quick() -> None:
    """Half a second of CPU is what a user notices; the wall clock of a busy machine proves nothing."""
    script = """
import time
from agentic_rl.cli import main
try:
    main(["--help"])
except SystemExit:
    print(time.process_time())
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "games" in told
    assert "serve" in told
    assert float(told.splitlines()[-1]) < 0.5
