"""The whole of `eval.py` with the builtin model itself, on real games."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_script import run

from agentic_rl.results import read_results, summarize

pytest.importorskip("torch")


def test_the_published_smoke_evaluation_plays_two_seen_and_two_unseen_real_games(
    sample_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "base-smoke.jsonl"
    published = (
        "--base-model builtin --split all --limit-per-split 2 --games-per-batch 2 --temperature 0.01 --seed 42 "
        f"--output {output} --swanlab-mode disabled"
    )
    ours = f"--preset laptop --data-root {sample_root} --max-turns 5"
    assert run("09-AgentOPSD", f"{published} {ours}".split()) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Results: {output}"
    results = read_results(output)
    assert [record.split for record in results.records] == ["valid_seen"] * 2 + ["valid_unseen"] * 2
    assert all(Path(record.game_file).is_relative_to(sample_root) for record in results.records)
    assert all(1 <= len(record.steps) <= 5 for record in results.records)
    assert results.summary.metrics == summarize(results.records)
    assert results.summary.settings is not None
    assert results.summary.settings["weights"].startswith("local:")


def test_an_unknown_checkpoint_is_one_line_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "results" / "checkpoint.jsonl"
    missing = ["--model-path", "local://no-such-run/sampler_weights/no-such-name", "--run-dir", str(tmp_path)]
    assert run("08-alfworld", ["--preset", "laptop", *missing, "--output", str(output)]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert "no-such-name" in said
    assert not output.parent.exists()
