"""`agentic-rl teacher`, from the command line to what is printed and written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from walkthrough import Walkthrough

from agentic_rl.cli import main
from agentic_rl.dialogue import ChatFormat
from agentic_rl.evaluation.teacher.distance import LOST
from agentic_rl.games.source import load_entries
from agentic_rl.results import choose_games, panel_hash

SMALL = ["--games", "household:1", "--count", "2", "--group-size", "2", "--max-turns", "6", "--seed", "5"]


def teacher(*flags: str) -> int:
    return main(["teacher", *SMALL, *flags])


@pytest.fixture
def player(chat: ChatFormat, monkeypatch: pytest.MonkeyPatch) -> Walkthrough:
    """Plays in place of the model."""
    games = choose_games(load_entries("household:1", Path(), ["valid_unseen"]), limit_per_split=2, seed=5)
    sampler = Walkthrough(chat, games)
    monkeypatch.setattr("agentic_rl.policy.open_sampler", lambda *names, **options: sampler)
    return sampler


def test_the_builtin_model_plays_reads_and_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "worth.json"
    assert teacher("--json", str(file)) == 0
    said = capsys.readouterr().out.splitlines()
    document = json.loads(file.read_text())
    turns = document["turns"]

    assert document["trajectories"] == 4
    assert re.fullmatch(r"4 trajectories, \d won \(.*%\), \d+ turns", said[1])
    assert f"panel {panel_hash({turn['game_id'] for turn in turns})}" in said[0]
    assert 4 <= len(turns) <= 24
    assert {turn["without"] for turn in turns} == {0.0}
    assert all(turn["with_skills"] != 0.0 for turn in turns)
    distances = [(turn["distance_before"], turn["distance_after"]) for turn in turns]
    known = [(before, LOST if after is None else after) for before, after in distances if before is not None]
    assert all(after >= before - 1 for before, after in known)
    counted = document["with_skills"]["nearer"]
    assert counted["good"] == sum(after < before for before, after in known)
    assert counted["good"] + counted["others"] == len(known) == len(turns) - document["turns_without_distance"]
    assert document["no_skills"]["nearer"]["auc"] in (0.5, None)
    assert said[-1].startswith("does a turn that brings the end nearer get more evidence? AUC ")
    assert said[-1].endswith("with none, where the largest evidence is 0")

    assert teacher("--live-trajectories", "1", "--teacher-concurrency", "1") == 0
    assert capsys.readouterr().out.splitlines()[1:3] == said[1:3]


def test_progress_goes_to_standard_error_and_the_sampler_is_closed(
    player: Walkthrough, capsys: pytest.CaptureFixture[str]
) -> None:
    assert teacher("--max-turns", "20") == 0
    said = capsys.readouterr()
    assert "playing 4 episodes" in said.err
    assert "4 of 4 episodes: 4 won" in said.err
    assert "asking the expert about" in said.err
    assert "episodes" not in said.out
    assert player.closed


def test_a_walk_without_a_bad_turn_has_no_area_and_says_so(
    player: Walkthrough, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "worth.json"
    assert teacher("--max-turns", "20", "--json", str(file)) == 0
    assert "nearer get more evidence? AUC – with the skills; – with none" in capsys.readouterr().out
    told = json.loads(file.read_text())["with_skills"]["nearer"]
    assert (told["others"], told["others_mean"], told["auc"], told["interval"]) == (0, None, None, None)
    assert told["good"] > 0


def test_a_game_lost_for_good_has_no_distance(
    player: Walkthrough, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_rl.evaluation.teacher.distance.solve_from", lambda episode: None)
    player.lost = [game.game_id for game in player.games]
    file = tmp_path / "worth.json"
    assert teacher("--max-turns", "2", "--json", str(file)) == 0
    assert "because the game could no longer be won: 8\n" in capsys.readouterr().out
    document = json.loads(file.read_text())
    assert document["turns_without_distance"] == 8
    assert {(turn["distance_before"], turn["distance_after"]) for turn in document["turns"]} == {(None, None)}


def test_what_could_not_be_played_is_said(player: Walkthrough, capsys: pytest.CaptureFixture[str]) -> None:
    async def fail(game_id: str) -> None:
        if game_id == player.games[0].game_id:
            raise ConnectionError("the line went dead")

    player.before = fail
    assert teacher("--sample-retries", "0", "--max-turns", "20") == 0
    assert "2 trajectories, 2 won" in (said := capsys.readouterr().out)
    assert "2 more could not be played and scored" in said


def test_ctrl_c_ends_it_with_one_line_and_closes_the_sampler(
    player: Walkthrough, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def press(game_id: str) -> None:
        if player.before is not None:
            player.before = None
            signal.raise_signal(signal.SIGINT)

    player.before = press
    file = tmp_path / "worth.json"
    assert teacher("--json", str(file)) == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1] == "interrupted"
    assert player.closed
    assert not file.exists()


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--count", "0"], "--count is 0"),
        (["--count", "301"], "--count is 301, and the split valid_unseen has 300 games"),
        (["--games", "chess"], "--games chess is unknown"),
        (["--games", "alfworld"], "--games alfworld needs the files. .*--data-root"),
        (["--data-root", "somewhere"], "--data-root has no part in --games household:1"),
        (["--games", "alfworld", "--data-root", "absent"], "there is no dataset at absent"),
        (["--split", "test"], "no generated games for the split 'test'"),
        (["--skills-dir", "absent"], "no skills folder at absent"),
        (["--json", "absent/worth.json"], "--json absent/worth.json: there is no folder absent"),
        (["--model-path", "local://r/training_state/x"], "is a training state.*`Saved sampler weights`"),
        (["--model-path", "local://no-such-run/sampler_weights/x"], "no-such-run"),
        (["--max-trajectory-tokens", "64", "--max-action-tokens", "64"], "Raise --max-trajectory-tokens"),
        (["--max-trajectory-tokens", "64"], "the first prompt of .* Raise --max-trajectory-tokens"),
        (["--group", "4"], "unrecognized arguments: --group 4"),
        (["--baseline", "none"], "unrecognized arguments"),
        (["--evidence-baseline", "none"], "invalid choice: 'none'"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    flags: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    assert teacher(*flags) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith("error: ")
    assert re.search(line, said.err.splitlines()[-1])


def test_a_file_that_cannot_be_written_is_one_line(
    player: Walkthrough, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert teacher("--json", str(tmp_path)) == 2
    assert f"error: --json {tmp_path} cannot be written" in capsys.readouterr().err


def test_naming_a_dataset_means_its_files(
    sample_root: Path, chat: ChatFormat, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    games = load_entries("alfworld", sample_root, ["valid_unseen"])
    sampler = Walkthrough(chat, games)
    monkeypatch.setattr("agentic_rl.policy.open_sampler", lambda *names, **options: sampler)
    flags = ["--data-root", str(sample_root), "--count", "6", "--group-size", "1", "--max-turns", "50"]
    assert main(["teacher", *flags]) == 0
    said = capsys.readouterr().out
    assert "alfworld valid_unseen, 6 games" in said
    assert "6 trajectories, 6 won" in said


def test_help_loads_nothing_heavy() -> None:
    probe = (
        "import sys\nfrom agentic_rl.cli import main\n"
        "try:\n    main(['teacher', '--help'])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print('LOADED', *sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert "--evidence-baseline" in done.stdout
    loaded = set(done.stdout.rsplit("LOADED", 1)[1].split())
    assert loaded & {"torch", "transformers", "numpy", "pytrio", "textworld", "alfworld"} == set()


def test_the_service_says_what_this_machine_says(tmp_path: Path) -> None:
    """The same command over PyTRIO's protocol plays the same turns and finds the same evidence."""
    pytest.importorskip("torch")
    pytest.importorskip("pytrio")
    import served

    files = {backend: tmp_path / f"{backend}.json" for backend in ("local", "pytrio")}
    assert teacher("--json", str(files["local"])) == 0
    with served.serving(tmp_path / "serve") as server:
        environment = {"PYTRIO_BASE_URL": server.url, "PYTRIO_API_KEY": served.API_KEY, "HOME": str(tmp_path)}
        remote = ["--backend", "pytrio", "--base-model", served.MODEL, "--json", str(files["pytrio"])]
        command = [sys.executable, "-m", "agentic_rl.cli", "teacher", *SMALL, *remote]
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    here, there = (json.loads(file.read_text())["turns"] for file in files.values())
    assert [one.pop("with_skills") for one in there] == pytest.approx(
        [one.pop("with_skills") for one in here], abs=1e-4
    )
    assert there == here
