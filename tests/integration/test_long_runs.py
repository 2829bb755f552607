"""Runs that stop and go on: nothing learned is lost, and the same seed gives the same run."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SMALL = (
    "--preset laptop --games household:1 --games-per-batch 2 --group-size 4 --max-episode-steps 4 --eval-every 0 "
    "--save-every 1 --run-name small"
)


def start(run_dir: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "08-alfworld/train.py", *SMALL.split(), "--run-dir", str(run_dir), *flags]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return out


def updates(run: Path) -> list[dict[str, object]]:
    """What each update measured, less what a clock or the machine's load decides."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("time/")} for line in lines]


def trajectories(run: Path) -> list[str]:
    return [file.read_text() for file in sorted((run / "trajectories").iterdir())]


def test_a_run_that_was_resumed_is_the_run_that_was_not(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    finish(start(whole, "--max-steps", "2"))
    out = finish(start(parts, "--max-steps", "1"))
    state = re.findall(r"Saved state: (\S+)", out)[0]
    assert state == "local://small/training_state/small-update-1-state"
    finish(start(parts, "--max-steps", "2", "--resume", state))
    assert trajectories(parts / "small") == trajectories(whole / "small")
    assert updates(parts / "small") == updates(whole / "small")
    assert [update["update"] for update in updates(parts / "small")] == [1, 2]


def test_ctrl_c_saves_what_was_learned_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = start(tmp_path, "--max-steps", "1000", "--save-every", "0")
    metrics = tmp_path / "small" / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while not (metrics.exists() and metrics.read_text()):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err
    finished = len(updates(tmp_path / "small"))
    state = re.findall(r"go on with: --resume (\S+)", out)[-1]
    assert state == f"local://small/training_state/small-stopped-update-{finished}-state"
    finish(start(tmp_path, "--max-steps", str(finished + 1), "--resume", state))
    assert [update["update"] for update in updates(tmp_path / "small")] == list(range(1, finished + 2))
