"""The whole of `eval.py` with the builtin model itself, on generated and on real games."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentic_rl.results import Results, read_results, summarize

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("torch")


def evaluate(recipe: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / recipe / "eval.py"), "--preset", "laptop", *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def played(done: subprocess.CompletedProcess[str], output: Path) -> Results:
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"Results: {output}"
    results = read_results(output)
    assert results.summary.metrics == summarize(results.records)
    return results


def test_the_published_smoke_evaluation_plays_two_seen_and_two_unseen_real_games(
    sample_root: Path, tmp_path: Path
) -> None:
    output = tmp_path / "base-smoke.jsonl"
    flags = "--base-model builtin --split all --limit-per-split 2 --games-per-batch 2 --temperature 0.01 --seed 42"
    done = evaluate(
        "09-AgentOPSD", *flags.split(), "--output", str(output), "--swanlab-mode", "disabled", "--max-turns", "8",
        "--data-root", str(sample_root),
    )  # fmt: skip
    results = played(done, output)
    assert [record.split for record in results.records] == ["valid_seen"] * 2 + ["valid_unseen"] * 2
    assert all(Path(record.game_file).is_relative_to(sample_root) for record in results.records)
    assert all(1 <= len(record.steps) <= 8 for record in results.records)


def test_an_unknown_checkpoint_is_one_line_and_leaves_nothing_behind(tmp_path: Path) -> None:
    output = tmp_path / "results" / "checkpoint.jsonl"
    missing = ["--model-path", "local://no-such-run/sampler_weights/no-such-name", "--run-dir", str(tmp_path)]
    done = evaluate("08-alfworld", *missing, "--output", str(output))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "no-such-name" in done.stderr
    assert not output.parent.exists()
