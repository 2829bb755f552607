"""The run directory: made once, locked while in use, and nothing in it is ever lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentic_rl.errors import RunDirectoryError
from agentic_rl.policy.protocol import SavedPaths
from agentic_rl.training.run_directory import RunDirectory, find_state, read_checkpoints


def record(run: RunDirectory, update: int) -> None:
    with run.metrics_path.open("a") as file:
        file.write(json.dumps({"update": update}) + "\n")
    run.write_trajectories(update, [{"game_id": "g", "update": update}])
    evaluation = run.path / "evaluations" / f"update-{update:05d}.jsonl"
    evaluation.parent.mkdir(exist_ok=True)
    evaluation.write_text("{}\n")
    run.record_checkpoint(f"run-update-{update}", update, SavedPaths(f"x://state-{update}", f"x://weights-{update}"))


def begun(parent: Path, name: str = "run") -> RunDirectory:
    run = RunDirectory.create(parent, name)
    run.begin({"seed": 1}, after=0, games=3, panel_hash="ab")
    return run


def go_on(run: RunDirectory, after: int) -> None:
    run.begin({"seed": 2}, after=after, games=3, panel_hash="ab")


def updates(path: Path) -> list[int]:
    return [json.loads(line)["update"] for line in path.read_text().splitlines()]


def test_an_existing_run_is_refused_and_says_how_to_go_on(tmp_path: Path) -> None:
    begun(tmp_path).close()
    with pytest.raises(RunDirectoryError, match=r"run exists already\. Choose another --run-name.*--resume"):
        RunDirectory.create(tmp_path, "run")


def test_a_run_in_use_cannot_be_opened_twice(tmp_path: Path) -> None:
    with begun(tmp_path), pytest.raises(RunDirectoryError, match="in use"):
        RunDirectory.reopen(tmp_path / "run")
    RunDirectory.reopen(tmp_path / "run").close()


def test_a_run_that_never_began_leaves_its_name_free(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "runs", "run").close()
    assert list(tmp_path.iterdir()) == []


def test_going_on_from_an_earlier_state_sets_the_later_updates_aside(tmp_path: Path) -> None:
    with begun(tmp_path) as run:
        for update in (1, 2, 3):
            record(run, update)
        with run.metrics_path.open("a") as file:
            file.write('{"update": 4, "torn')
    with RunDirectory.reopen(tmp_path / "run") as run:
        go_on(run, 1)
    assert updates(run.metrics_path) == [1]
    assert [c.update for c in read_checkpoints(run.path)] == [1]
    for folder in ("trajectories", "evaluations"):  # an evaluation of weights that are no more would pass for a new one
        assert [file.name for file in (run.path / folder).iterdir()] == ["update-00001.jsonl"]
    aside = run.path / "superseded" / "1"
    assert len(aside.joinpath("metrics.jsonl").read_text().splitlines()) == 3
    for folder in ("trajectories", "evaluations"):
        moved = sorted(file.name for file in (aside / folder).iterdir())
        assert moved == ["update-00002.jsonl", "update-00003.jsonl"]
    assert [c.update for c in read_checkpoints(aside)] == [2, 3]


def test_setting_aside_nothing_leaves_no_trace(tmp_path: Path) -> None:
    with begun(tmp_path) as run:
        record(run, 1)
        go_on(run, 1)
    assert not (run.path / "superseded").exists()


def test_a_state_is_found_by_its_path_superseded_ones_too(tmp_path: Path) -> None:
    with begun(tmp_path, "one") as run:
        record(run, 1)
        record(run, 2)
        go_on(run, 1)
    for update in (1, 2):
        found = find_state(tmp_path, f"x://state-{update}")
        assert found is not None
        assert found[0] == tmp_path / "one"
        assert found[1].update == update
    assert find_state(tmp_path, "x://state-9") is None


def test_the_config_of_a_resumed_run_stands_beside_the_first(tmp_path: Path) -> None:
    with begun(tmp_path) as run:
        go_on(run, 0)
    first = json.loads((run.path / "config.json").read_text())
    assert first["config"] == {"seed": 1}
    assert first["panel_hash"] == "ab"
    assert "numpy" in first["versions"]
    assert json.loads((run.path / "config.resumed-1.json").read_text())["config"] == {"seed": 2}


def test_a_damaged_listing_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "checkpoints.json").write_text("[{]")
    with pytest.raises(RunDirectoryError, match=r"checkpoints\.json is damaged"):
        read_checkpoints(tmp_path)


def test_whatever_a_model_writes_can_be_recorded(tmp_path: Path) -> None:
    text = "half a pair \ud83d, a null \x00, a line \u2028 separator"
    with begun(tmp_path) as run:
        file = run.write_trajectories(1, [{"assistant_text": text}])
    (line,) = file.read_text("utf-8").splitlines()
    assert json.loads(line) == {"assistant_text": text}
