"""Both recipes' smoke commands three ways: on the local backend, through the SDK, and through the SDK with faults.

One seed gives one run, wherever the model is and whatever the network does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import served
from safetensors.torch import load_file

from agentic_rl.serving.faults import KINDS, FaultSpec

ROOT = Path(__file__).resolve().parents[2]
RECIPES = {
    "08-alfworld": ["--games-per-batch", "2", "--group-size", "4", "--max-episode-steps", "5", "--save-every", "0"],
    "09-AgentOPSD": [
        *("--tasks-per-update", "2", "--group-size", "4", "--max-turns", "5", "--teacher-concurrency", "4"),
        *("--save-every", "1"),
    ],
}


def train(recipe: str, folder: Path, backend: list[str], environment: dict[str, str]) -> tuple[list[Any], str]:
    """Run one smoke command; gives its trajectories and the address of the weights that it printed last."""
    command = [sys.executable, str(ROOT / recipe / "train.py"), "--max-steps", "1", *RECIPES[recipe], "--seed", "3"]
    command += ["--games", "household:1", "--run-name", "smoke", "--run-dir", str(folder), "--swanlab-mode", "disabled"]
    # Some game of a group must go another way than its neighbours, or there is nothing to learn from.
    command += [
        "--learning-rate",
        "1e-4",
        "--max-action-tokens" if recipe[0:2] == "09" else "--max-assistant-tokens",
        "32",
    ]
    done = subprocess.run(
        [*command, *backend], env=os.environ | environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    played = (folder / "smoke" / "trajectories" / "update-00001.jsonl").read_text().splitlines()
    weights = json.loads((folder / "smoke" / "checkpoints.json").read_text())[-1]["sampler"]
    return sorted((json.loads(line) for line in played), key=lambda t: (t["group_id"], t["group_index"])), weights


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


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_is_the_same_three_ways(recipe: str, tmp_path: Path) -> None:
    here, weights = train(recipe, tmp_path / "local", ["--backend", "local", "--base-model", "builtin"], {})
    reference = load_file(tmp_path / "local" / weights.removeprefix("local://") / "adapter.safetensors")
    for name, faults in (("plain", ()), ("faulty", tuple(FaultSpec(kind, 0.05, 1) for kind in KINDS))):
        with served.serving(tmp_path / f"state-{name}", faults=faults) as server:
            environment = {
                "PYTRIO_BASE_URL": server.url,
                "PYTRIO_API_KEY": served.API_KEY,
                "HOME": str(tmp_path / f"home-{name}"),
            }
            there, address = train(recipe, tmp_path / name, ["--base-model", served.MODEL], environment)
            assert len(there) == len(here) == 8, "no trajectory is lost"
            for mine, theirs in zip(here, there, strict=True):
                assert same_numbers(mine, theirs)
            learned = load_file(served_weights(server, address))
            assert max(float((learned[key] - value).abs().max()) for key, value in reference.items()) < 1e-5
            metrics = json.loads((tmp_path / name / "smoke" / "metrics.jsonl").read_text().splitlines()[-1])
            if "optimizer/step" in metrics:
                assert metrics["optimizer/step"] == 1, "no step is done twice"
            if faults:
                assert sum(server.context.faults.counts.values()) > 3, server.context.faults.counts
        assert not (tmp_path / f"home-{name}").exists(), "nothing is written to the user's profile"
