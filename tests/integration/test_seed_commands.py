"""The commands of both experiments on real games, with the builtin model: as printed, plus a preset and a folder."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from agentic_rl.config import run_main
from agentic_rl.results import read_results

ROOT = Path(__file__).resolve().parents[2]

SMOKE_08 = (
    "--max-steps 1 --games-per-batch 1 --group-size 8 --max-episode-steps 10 --save-every 0 "
    "--run-name alfworld-smoke --swanlab-mode disabled"
)
SMOKE_09 = (
    "--max-steps 1 --tasks-per-update 1 --group-size 4 --max-turns 20 --teacher-concurrency 4 --save-every 1 --seed 3 "
    "--run-name agentopsd-smoke --swanlab-mode disabled"
)
EVAL_08 = "--split all --games-per-batch 16 --temperature 0.01 --seed 42 --swanlab-mode disabled --limit-per-split 2"
EVAL_09 = "--split all --limit-per-split 2 --games-per-batch 2 --temperature 0.01 --seed 42 --swanlab-mode disabled"

type Run = Callable[..., tuple[int, str, str]]


def load(script: str) -> Any:
    """The script as a module; the folders' names are no package names."""
    name = script.replace("/", "_").replace("-", "_").removesuffix(".py")
    if name not in sys.modules:
        spec = spec_from_file_location(name, ROOT / script)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run one of the scripts from the repository root; its exit code, output and errors."""
    monkeypatch.chdir(ROOT)

    def call(script: str, *argv: object) -> tuple[int, str, str]:
        capsys.readouterr()
        arguments = [word for part in argv for word in (part.split() if isinstance(part, str) else [str(part)])]
        code = run_main(load(script).main, arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def metrics_of(run_directory: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run_directory / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("script", "smoke", "evaluation", "name", "turns"),
    [
        ("08-alfworld", SMOKE_08, EVAL_08, "alfworld-smoke", "rollout/steps_mean"),
        ("09-AgentOPSD", SMOKE_09, EVAL_09, "agentopsd-smoke", "trajectory/turns_mean"),
    ],
)
def test_a_smoke_update_an_evaluation_of_its_checkpoint_and_the_figure(
    script: str, smoke: str, evaluation: str, name: str, turns: str, run: Run, sample_root: Path, tmp_path: Path
) -> None:
    laptop = f"--preset laptop --data-root {sample_root}"
    code, out, err = run(f"{script}/train.py", smoke, laptop, "--run-dir", tmp_path)
    assert code == 0, err
    saved = [line.split(": ", 1) for line in out.splitlines() if line.startswith("Saved ")]
    assert {kind for kind, _ in saved} == {"Saved state", "Saved sampler weights"}
    paths = dict(saved)
    assert paths["Saved state"] == f"local://{name}/training_state/{name}-final-state"
    assert paths["Saved sampler weights"] == f"local://{name}/sampler_weights/{name}-final-weights"

    (update,) = metrics_of(tmp_path / name)
    assert update["update"] == 1
    assert update[turns] > 0
    skipped = update.get("train/update_skipped", update.get("train/step_skipped"))
    assert skipped == (update["train/nonzero_trajectory_datums"] == 0)
    (trajectories,) = (tmp_path / name / "trajectories").iterdir()
    assert len(trajectories.read_text().splitlines()) == (8 if "08" in script else 4)

    results = tmp_path / "eval_results"
    base = results / "base-qwen35-4b-eval.jsonl"
    common = f"{evaluation} {laptop} --base-model builtin --run-dir {tmp_path}"
    code, out, err = run(f"{script}/eval.py", common, "--output", base)
    assert code == 0, err
    evaluated = read_results(base)
    assert [record.split for record in evaluated.records].count("valid_seen") == 2
    assert [record.split for record in evaluated.records].count("valid_unseen") == 2
    for split in ("valid_seen", "valid_unseen"):
        won = [record.won for record in evaluated.records if record.split == split]
        assert evaluated.summary.metrics[f"eval/{split}/success_rate"] == sum(won) / 2

    checkpoint = results / ("checkpoint-40steps.jsonl" if "08" in script else "checkpoint-eval-step40.jsonl")
    code, _, err = run(
        f"{script}/eval.py", common, "--output", checkpoint, "--model-path", paths["Saved sampler weights"]
    )
    assert code == 0, err
    shutil.copy(checkpoint, checkpoint.with_name(checkpoint.name.replace("40", "80")))
    figure = tmp_path / "figure.png"
    code, _, err = run(f"{script}/analysis.py", "--result-dir", results, "--output", figure, "--dpi 100")
    assert code == 0, err
    assert figure.read_bytes().startswith(b"\x89PNG")


WRONG_INPUTS = [
    ("train.py", "--data-root /nowhere", "alfworld-download"),
    ("train.py", "--group-size 0", "--group-size is 0"),
    ("train.py", "--temperature -1", "--temperature is -1"),
    ("train.py", "--ppo-clip-low 1.3", "--ppo-clip-low must be below 1"),
    ("train.py", "--games household --max-trajectory-tokens 64", "Raise --max-trajectory-tokens"),
    ("train.py", "--games household:9", "household:9"),
    ("train.py", "--games chess", "--games chess is unknown"),
    ("train.py", "--games household --train-split test", "'test'"),
    ("train.py", "--games household --resume local://nobody/training_state/x", "local://nobody/training_state/x"),
    ("train.py", "--games household --resume trio://r/training_state/x", "trio://r/training_state/x"),
    ("train.py", "--games household --base-model /nowhere/model", "/nowhere/model"),
    ("eval.py", "--games household --model-path local://nobody/sampler_weights/x", "local://nobody/sampler_weights/x"),
    ("eval.py", "--games household --model-path local://a/training_state/x", "training state"),
    ("eval.py", "--data-root /nowhere", "alfworld-download"),
    ("eval.py", "--temperature -1", "--temperature is -1"),
    ("analysis.py", "--result-dir /nowhere", "does not exist"),
]


@pytest.mark.parametrize("recipe", ["08-alfworld", "09-AgentOPSD"])
@pytest.mark.parametrize(("script", "flags", "said"), WRONG_INPUTS)
def test_a_wrong_input_is_one_clear_line_and_leaves_nothing_behind(
    recipe: str, script: str, flags: str, said: str, run: Run, tmp_path: Path
) -> None:
    preset = {
        "train.py": f"--preset laptop --run-dir {tmp_path}/runs",
        "eval.py": f"--preset laptop --run-dir {tmp_path}/runs --output {tmp_path}/e.jsonl",
        "analysis.py": f"--output {tmp_path}/f.png",
    }[script]
    code, out, err = run(f"{recipe}/{script}", preset, flags)
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err
    assert out == ""
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_skills_folder_without_a_task_type_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "general.md").write_text("Be quick.")
    (tmp_path / "skill_mapping.json").write_text(
        json.dumps({"skill_files": {"general": "general.md"}, "task_to_skill": {}})
    )
    code, _, err = run("09-AgentOPSD/train.py", "--preset laptop --skills-dir", tmp_path)
    assert code == 2
    assert "task type pick_and_place_simple has no skill" in err
    assert err.count("\n") == 1


def test_a_dry_run_prints_the_config_and_the_work_and_makes_nothing(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("09-AgentOPSD/train.py", "--preset laptop --dry-run --max-steps 3 --run-dir", tmp_path / "runs")
    assert code == 0
    config = json.loads(out[: out.index("\n}") + 2])
    assert config["max_steps"] == 3
    assert config["base_model"] == "builtin"
    assert "updates: 1 to 3, 64 trajectories each, 192 in all" in out
    assert not (tmp_path / "runs").exists()
