"""Both recipes' smoke commands three ways: on the local backend, through the SDK, and through the SDK with faults.

One seed gives one run, wherever the model is and whatever the network does.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import served
from safetensors.torch import load_file

from agentic_rl.serving.faults import KINDS, FaultSpec

ROOT = Path(__file__).resolve().parents[2]


def rehearsal() -> ModuleType:
    """The script that holds the seeds' commands as they are printed."""
    spec = importlib.util.spec_from_file_location("rehearse_seeds", ROOT / "scripts" / "rehearse_seeds.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def smoke_command(recipe: str) -> list[str]:
    """The printed check of one update: script and flags, without `uv run`."""
    script = rehearsal()
    text = script.ALFWORLD if recipe.startswith("08") else script.AGENTOPSD
    found = [words for words in script.printed(text) if "--run-name" in words and words[-1] == "disabled"]
    assert len(found) == 1, found
    words: list[str] = found[0]
    assert words[words.index("--run-name") + 1].endswith("smoke")
    start = next(i for i, word in enumerate(words) if word.endswith("train.py"))
    return [str(ROOT / words[start]), *words[start + 1 :]]


MEASURABLE = ["--learning-rate", "1e-4"]
"""At the printed rate a whole step is smaller than what the weights may differ by."""

LEARNING = {
    "08-alfworld": [*("--games", "household:1"), *("--games-per-batch", "2"), *("--max-assistant-tokens", "32")],
    "09-AgentOPSD": [*("--games", "household:1"), *("--tasks-per-update", "4"), *("--max-action-tokens", "32")],
}
"""Games of which some go another way than their neighbours of the same group, so that there is something to learn."""


def train(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[Path, list[Any], str]:
    """Run one command in a folder; gives the run's folder, its trajectories and the weights' address printed last."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    address = re.findall(r"Saved sampler weights: (\S+)", done.stdout)[-1]
    run = folder / "runs" / command[command.index("--run-name") + 1]
    lines = (run / "trajectories" / "update-00001.jsonl").read_text().splitlines()
    played = sorted((json.loads(line) for line in lines), key=lambda t: (t["group_id"], t["group_index"]))
    return run, played, address


def metrics_of(run: Path) -> dict[str, float]:
    metrics: dict[str, float] = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return metrics


def served_weights(server: served.Server, address: str) -> Path:
    store = server.context.store
    return store.folder(store.find(address)) / "sampler_weights" / "adapter" / "adapter.safetensors"


def same_numbers(a: Any, b: Any) -> bool:
    """Equal but for the rounding of numbers."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_numbers(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same_numbers, a, b))
    return abs(a - b) < 1e-4 if isinstance(a, float) else a == b


def same_three_ways(command: list[str], tmp_path: Path) -> dict[str, float]:
    """Run a command on the local backend, over HTTP, and through faults of every kind; the metrics of the first."""
    local = ["--backend", "local", "--base-model", "builtin"]
    run, here, weights = train([*command, *local], tmp_path / "local", {})
    reference = load_file(run.parent / weights.removeprefix("local://") / "adapter.safetensors")
    metrics = metrics_of(run)
    for name, faults in (("plain", ()), ("faulty", tuple(FaultSpec(kind, 0.05, 1) for kind in KINDS))):
        with served.serving(tmp_path / f"state-{name}", faults=faults) as server:
            environment = {
                "PYTRIO_BASE_URL": server.url,
                "PYTRIO_API_KEY": served.API_KEY,
                "HOME": str(tmp_path / f"home-{name}"),
            }
            run, there, address = train(command, tmp_path / name, environment)
            assert len(there) == len(here), "no trajectory is lost"
            for mine, theirs in zip(here, there, strict=True):
                assert same_numbers(mine, theirs)
            learned = load_file(served_weights(server, address))
            assert max(float((learned[key] - value).abs().max()) for key, value in reference.items()) < 1e-5
            assert metrics_of(run).get("optimizer/step") == metrics.get("optimizer/step"), "no step is done twice"
            if faults:
                assert sum(server.context.faults.counts.values()) > 3, server.context.faults.counts
        assert not (tmp_path / f"home-{name}").exists(), "nothing is written to the user's profile"
    return metrics


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("recipe", LEARNING)
def test_the_printed_check_is_the_same_three_ways(recipe: str, sample_root: Path, tmp_path: Path) -> None:
    """On real games, and changed by nothing but the data's place and a rate at which weights move visibly."""
    same_three_ways([*smoke_command(recipe), "--data-root", str(sample_root), *MEASURABLE], tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("recipe", LEARNING)
def test_an_update_is_the_same_three_ways(recipe: str, tmp_path: Path) -> None:
    metrics = same_three_ways([*smoke_command(recipe), *LEARNING[recipe], *MEASURABLE], tmp_path)
    assert metrics["optimizer/step"] == 1
    assert metrics["optimizer/grad_norm"] > 1e-3
