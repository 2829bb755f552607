"""Checkpoints appear whole, go on bit for bit, and say what is wrong with them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import conformance
import pytest
import torch
from tiny_models import build

from agentic_rl.errors import BackendError, CheckpointError, ConfigError
from agentic_rl.policy.local import LocalPolicy, open_local_policy, open_local_sampler
from agentic_rl.policy.local.checkpoints import list_checkpoints
from agentic_rl.policy.local.loading import load_base_model
from agentic_rl.policy.protocol import LossConfig, SavedPaths


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "my-run"


def open_policy(tiny_model: Path, run_dir: Path, resume_from: str | None = None, **options: object) -> LocalPolicy:
    return open_local_policy(str(tiny_model), run_dir=run_dir, lora_rank=4, resume_from=resume_from, **options)  # type: ignore[arg-type]


async def save_after_one_update(policy: LocalPolicy, name: str = "my-run-update-1") -> SavedPaths:
    await policy.update(conformance.datums(1), LossConfig(), conformance.ADAM)
    return await policy.save(name)


def test_addresses_name_run_kind_and_save(tiny_model: Path, run_dir: Path) -> None:
    saved = asyncio.run(save_after_one_update(open_policy(tiny_model, run_dir)))
    assert saved.state == "local://my-run/training_state/my-run-update-1-state"
    assert saved.sampler == "local://my-run/sampler_weights/my-run-update-1-weights"
    assert sorted(list_checkpoints(run_dir.parent)) == sorted([saved.state, saved.sampler])


def test_resuming_repeats_the_uninterrupted_run_bit_for_bit(tiny_model: Path, run_dir: Path) -> None:
    async def play() -> None:
        straight = open_policy(tiny_model, run_dir)
        saved = await save_after_one_update(straight)
        resumed = open_policy(tiny_model, run_dir, saved.state)
        assert resumed.steps == 1
        for seed in (2, 3):
            ours, theirs = [
                dict(await policy.update(conformance.datums(seed), LossConfig(), conformance.ADAM))
                for policy in (straight, resumed)
            ]
            assert {k: v for k, v in ours.items() if "seconds" not in k} == {
                k: v for k, v in theirs.items() if "seconds" not in k
            }
        assert (await straight.snapshot()).id == (await resumed.snapshot()).id
        one, two = await straight.save("straight"), await resumed.save("resumed")
        for file in ("adapter.safetensors", "optimizer.safetensors"):
            first, second = (
                (run_dir / "training_state" / paths.state.rsplit("/", 1)[1] / file).read_bytes() for paths in (one, two)
            )
            assert first == second

    asyncio.run(play())


def test_a_name_said_again_gets_a_number_and_leaves_no_scraps(tiny_model: Path, run_dir: Path) -> None:
    async def play() -> list[SavedPaths]:
        policy = open_policy(tiny_model, run_dir)
        return [await save_after_one_update(policy, "again") for _ in range(3)]

    saved = [paths.state.rsplit("/", 1)[1] for paths in asyncio.run(play())]
    assert saved == ["again-state", "again-2-state", "again-3-state"]
    assert {path.name for path in (run_dir / "training_state").iterdir()} == set(saved)
    for name, steps in zip(saved, (1, 2, 3), strict=True):
        assert json.loads((run_dir / "training_state" / name / "checkpoint.json").read_text())["steps"] == steps


def test_both_halves_of_a_save_have_the_same_number(tiny_model: Path, run_dir: Path) -> None:
    """The process may have gone between the two."""
    policy = open_policy(tiny_model, run_dir)
    (run_dir / "training_state" / "half-state").mkdir(parents=True)
    saved = asyncio.run(save_after_one_update(policy, "half"))
    assert saved.sampler == "local://my-run/sampler_weights/half-2-weights"
    assert saved.state == "local://my-run/training_state/half-2-state"


def test_what_is_wrong_with_a_path_is_said(tiny_model: Path, run_dir: Path, tmp_path: Path) -> None:
    saved = asyncio.run(save_after_one_update(open_policy(tiny_model, run_dir)))
    with pytest.raises(CheckpointError, match="There are: local://my-run/"):
        open_policy(tiny_model, run_dir, "local://my-run/training_state/nothing")
    with pytest.raises(CheckpointError, match="not a local checkpoint"):
        open_policy(tiny_model, run_dir, "trio://run_1/training_state/x")
    with pytest.raises(CheckpointError, match="not a local checkpoint"):
        open_policy(tiny_model, run_dir, "local://../training_state/x")
    with pytest.raises(CheckpointError, match="training_state path is needed"):
        open_policy(tiny_model, run_dir, saved.sampler)
    with pytest.raises(CheckpointError, match="sampler_weights path is needed"):
        open_local_sampler(str(tiny_model), saved.state, run_root=run_dir.parent)
    with pytest.raises(CheckpointError, match="There is none"):
        open_local_sampler(str(tiny_model), saved.sampler, run_root=tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="--lora-rank 4"):
        open_local_policy(str(tiny_model), run_dir=run_dir, lora_rank=8, resume_from=saved.state)
    with pytest.raises(CheckpointError, match="cannot name a checkpoint"):
        asyncio.run(open_policy(tiny_model, run_dir).save("../escape"))


def test_weights_of_another_base_are_refused(tiny_model: Path, run_dir: Path, tmp_path: Path) -> None:
    saved = asyncio.run(save_after_one_update(open_policy(tiny_model, run_dir)))
    other = build(tmp_path / "other", seed=1)
    with pytest.raises(CheckpointError, match="was trained on base model"):
        open_local_sampler(str(other), saved.sampler, run_root=run_dir.parent)


def test_weights_of_an_earlier_base_of_the_same_name_are_refused(run_dir: Path, tmp_path: Path) -> None:
    base = build(tmp_path / "base")
    saved = asyncio.run(save_after_one_update(open_policy(base, run_dir)))
    build(base, seed=1)
    with pytest.raises(CheckpointError, match="whose weights have changed since"):
        open_local_sampler(str(base), saved.sampler, run_root=run_dir.parent)


def test_a_damaged_checkpoint_is_refused(tiny_model: Path, run_dir: Path) -> None:
    saved = asyncio.run(save_after_one_update(open_policy(tiny_model, run_dir)))
    folder = run_dir / "training_state" / "my-run-update-1-state"
    weights = (folder / "adapter.safetensors").read_bytes()
    (folder / "adapter.safetensors").write_bytes(weights[:100])
    with pytest.raises(CheckpointError, match="damaged"):
        open_policy(tiny_model, run_dir, saved.state)
    (folder / "checkpoint.json").write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        open_policy(tiny_model, run_dir, saved.state)


def test_a_base_model_that_is_not_there_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path
) -> None:
    monkeypatch.setattr("agentic_rl.policy.local.loading._hub_has_an_address", lambda: False)
    with pytest.raises(ConfigError, match=r"no config\.json"):
        load_base_model(str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"no config\.json"):
        load_base_model(str(tmp_path / "empty"))
    (tmp_path / "empty" / "config.json").write_text("{}")
    for name in (str(tmp_path / "empty"), "somebody/no-such-model"):
        with pytest.raises(BackendError) as found:
            load_base_model(name)
        assert "\n" not in str(found.value)
        assert name in str(found.value)
    with pytest.raises(ConfigError, match="device"):
        load_base_model(str(tiny_model), device="tpu9")


def test_the_cpu_computes_in_float32(tiny_model: Path) -> None:
    base = load_base_model(str(tiny_model), device="cpu")
    assert base.dtype == torch.float32
    assert base.eos_token_ids == (1,)
    assert base.max_tokens == 2048
