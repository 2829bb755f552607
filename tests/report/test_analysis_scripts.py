"""`analysis.py` of both recipes: the published names, one clear line for what is wrong, and no heavy import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from played import evaluation, game
from recipe_script import ROOT, run

FILES = {
    "08-alfworld": ("base-qwen35-4b-eval.jsonl", "checkpoint-40steps.jsonl", "checkpoint-80steps.jsonl"),
    "09-AgentOPSD": ("base-qwen35-4b-eval.jsonl", "checkpoint-eval-step40.jsonl", "checkpoint-eval-step80.jsonl"),
}
FIGURES = {"08-alfworld": "alfworld_checkpoint_evaluation.png", "09-AgentOPSD": "agentopsd_checkpoint_evaluation.png"}
HEAVY = {
    "torch",
    "transformers",
    "textworld",
    "alfworld",
    "pytrio",
    "swanlab",
    "agentic_rl.policy",
    "agentic_rl.rollout",
}


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


recipes = pytest.mark.parametrize("recipe", FILES)


@pytest.fixture
def analysis(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def run_script(recipe: str, *argv: str) -> Done:
        code = run(recipe, argv, "analysis")
        return Done(code, *capsys.readouterr())

    return run_script


def results(folder: Path, recipe: str) -> Path:
    for won, name in enumerate(FILES[recipe]):
        evaluation(folder / name, [game(number, won=number < won) for number in range(4)])
    return folder


@recipes
def test_without_flags_it_reads_and_writes_the_published_paths(
    analysis: Callable[..., Done], recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results(tmp_path / recipe / "eval_results", recipe)
    monkeypatch.chdir(tmp_path)
    done = analysis(recipe)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"Figure: {recipe}/images/{FIGURES[recipe]}"
    assert (tmp_path / recipe / "images" / FIGURES[recipe]).exists()


@recipes
def test_folder_output_and_resolution_can_be_chosen(analysis: Callable[..., Done], recipe: str, tmp_path: Path) -> None:
    results(tmp_path / "mine", recipe)
    output = tmp_path / "figure.svg"
    done = analysis(recipe, "--result-dir", str(tmp_path / "mine"), "--output", str(output), "--dpi", "150")
    assert done.returncode == 0, done.stderr
    assert output.read_text().startswith("<?xml")


def test_other_files_can_be_compared_by_name(analysis: Callable[..., Done], tmp_path: Path) -> None:
    results(tmp_path, "08-alfworld")
    named = "Before=base-qwen35-4b-eval.jsonl, After = checkpoint-80steps.jsonl"
    output = tmp_path / "figure.png"
    done = analysis("08-alfworld", "--result-dir", str(tmp_path), "--files", named, "--output", str(output))
    assert done.returncode == 0, done.stderr
    _, before, after, _ = done.stdout.splitlines()
    assert before.split()[:2] == ["Before", "0.00%"]
    assert after.split()[:2] == ["After", "50.00%"]


@recipes
def test_missing_files_are_one_line_and_exit_code_2(analysis: Callable[..., Done], recipe: str, tmp_path: Path) -> None:
    done = analysis(recipe, "--result-dir", str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"error: {tmp_path}/{FILES[recipe][0]} does not exist. "
        f"Make it with eval.py --output {tmp_path}/{FILES[recipe][0]}"
    ]


def test_files_with_different_games_are_one_line_and_exit_code_2(analysis: Callable[..., Done], tmp_path: Path) -> None:
    results(tmp_path, "08-alfworld")
    evaluation(tmp_path / "checkpoint-80steps.jsonl", [game(number, won=True) for number in range(1, 5)])
    done = analysis("08-alfworld", "--result-dir", str(tmp_path), "--output", str(tmp_path / "figure.png"))
    assert done.returncode == 2
    assert "hold different games" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@recipes
def test_help_shows_every_flag(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(recipe, ["--help"], "analysis")
    shown = capsys.readouterr().out
    for flag in ("--result-dir", "--files", "--output", "--dpi", FIGURES[recipe], *FILES[recipe]):
        assert flag in shown.replace("\n", "").replace(" " * 34, " ")


def test_the_figure_is_made_without_a_model_or_games(tmp_path: Path) -> None:
    recipe = "09-AgentOPSD"
    folder = results(tmp_path, recipe)
    argv = ["--result-dir", str(folder), "--output", str(folder / "figure.png")]
    script = f"""
import runpy, sys
sys.argv = {["analysis.py", *argv]!r}
try:
    runpy.run_path({str(ROOT / recipe / "analysis.py")!r}, run_name="__main__")
except SystemExit as end:
    assert end.code == 0, end.code
heavy = {HEAVY!r}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
