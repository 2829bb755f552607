"""Tracking: the file is the record, SwanLab mirrors it and never stops a run."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from agentic_rl.tracking import Tracker, TrackingError


def open_tracker(folder: Path, mode: str) -> Tracker:
    return Tracker(
        folder / "metrics.jsonl",
        mode=mode,  # type: ignore[arg-type]
        project="tests",
        name="run",
        log_dir=folder / "swanlab",
        config={"seed": 1},
    )


@pytest.mark.parametrize("mode", ["disabled", "offline", "local"])
def test_modes_without_a_login_write_the_file_and_ask_nothing(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked for input"))
    with open_tracker(tmp_path, mode) as tracker:
        tracker.log(1, {"reward/mean": 0.25})
        tracker.log(2, {"reward/mean": 0.5})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"update": 1, "reward/mean": 0.25}, {"update": 2, "reward/mean": 0.5}]
    assert (tmp_path / "swanlab").exists() == (mode != "disabled")


def test_a_login_that_is_missing_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import swanlab

    def refuse(**_: object) -> None:
        raise RuntimeError("no API key\nis configured")

    monkeypatch.setattr(swanlab, "init", refuse)
    with pytest.raises(TrackingError, match=r"mode online: no API key is configured\. Run `swanlab login`"):
        open_tracker(tmp_path, "online")


def test_a_tracker_that_fails_later_is_reported_once_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import swanlab

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    tracker = open_tracker(tmp_path, "offline")
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(swanlab, "log", fail)
        tracker.log(1, {"a": 1.0})
        tracker.log(2, {"a": 2.0})
    tracker.close()
    swanlab.finish()
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
    assert [r.getMessage() for r in caplog.records if r.name == "agentic_rl.tracking"] == [
        "SwanLab stopped: disk full; the run goes on, metrics.jsonl has everything"
    ]
