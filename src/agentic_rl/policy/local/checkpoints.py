"""Saved adapters: `local://<run>/training_state/<name>` and `local://<run>/sampler_weights/<name>`.

Both are folders under the run's directory. `training_state` goes on training (adapter, optimizer, step count);
`sampler_weights` holds the adapter alone. A folder appears whole or not at all.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from agentic_rl.errors import CheckpointError
from agentic_rl.policy.local.lora import LoraSpec
from agentic_rl.policy.local.trainer import Trainer

SCHEME = "local://"
FORMAT = 1

type Kind = Literal["training_state", "sampler_weights"]
KINDS: tuple[Kind, Kind] = ("training_state", "sampler_weights")
SAVED_AS: dict[Kind, str] = {"training_state": "-state", "sampler_weights": "-weights"}
"""What stands behind a policy's name for a save in the addresses of its two halves."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One saved folder, read and checked against nothing yet."""

    address: str
    folder: Path
    kind: Kind
    lora: LoraSpec
    base_model: str
    fingerprint: str
    steps: int

    def adapter(self) -> dict[str, Tensor]:
        return _read_tensors(self, "adapter.safetensors")

    def moments(self) -> dict[str, Tensor]:
        """Adam's two moments by `<moment>/<parameter>`. Only a training state has them."""
        if self.kind != "training_state":
            raise CheckpointError(f"{self.address} holds no optimizer", hint="Resume from a training_state path.")
        return _read_tensors(self, "optimizer.safetensors")

    def require_base(self, fingerprint: str, base_model: str) -> None:
        """Refuse weights that were trained on another base, also on an earlier one of the same name."""
        if fingerprint == self.fingerprint:
            return
        if base_model == self.base_model:
            raise CheckpointError(
                f"{self.address} was trained on base model {base_model!r}, whose weights have changed since",
                hint="Train again, or use the base model's earlier weights.",
            )
        raise CheckpointError(
            f"{self.address} was trained on base model {self.base_model!r}, not on {base_model!r}",
            hint=f"Use --base-model {self.base_model}.",
        )


def save_checkpoint(
    run_dir: Path, kind: Kind, name: str, trainer: Trainer, lora: LoraSpec, *, base_model: str, fingerprint: str
) -> str:
    """Write one folder and return its address. What is saved is never replaced: the name must be free.

    Raises
    ------
    CheckpointError
        Not a name, or not a free one.
    """
    from safetensors.torch import save_file

    if not _NAME.fullmatch(name):
        raise CheckpointError(
            f"{name!r} cannot name a checkpoint", hint="Use letters, digits, dots, hyphens and underscores."
        )
    target = run_dir / kind / name
    if target.exists():
        raise CheckpointError(f"{SCHEME}{run_dir.name}/{kind}/{name} exists already", hint="Save under another name.")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.parent / f".{name}.{uuid.uuid4().hex[:8]}"
    scratch.mkdir()
    try:
        save_file(_plain(trainer.parameters), scratch / "adapter.safetensors")
        if kind == "training_state":
            save_file(_moments(trainer), scratch / "optimizer.safetensors")
        description = {
            "format": FORMAT,
            "kind": kind,
            "base_model": base_model,
            "fingerprint": fingerprint,
            "lora": lora.as_dict(),
            "steps": trainer.steps,
        }
        (scratch / "checkpoint.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        for file in scratch.iterdir():
            _flush(file)
        scratch.rename(target)
        _flush(target.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return f"{SCHEME}{run_dir.name}/{kind}/{name}"


def free_name(run_dir: Path, name: str) -> str:
    """`name`, with a number behind it where one of its two halves (`SAVED_AS`) is there already.

    A run that goes on from an earlier state says its names again. What the first ones stand for is known: evaluations
    name them, and a user may want them back.
    """
    names = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
    return next(
        free for free in names if not any((run_dir / kind / (free + SAVED_AS[kind])).exists() for kind in KINDS)
    )


def find_checkpoint(address: str, run_root: Path, *, kind: Kind | None = None) -> Checkpoint:
    """Read what an address stands for.

    Raises
    ------
    CheckpointError
        Not an address, unknown (the message names what there is), of another kind, or damaged.
    """
    parts = address.removeprefix(SCHEME).split("/")
    if not address.startswith(SCHEME) or len(parts) != 3 or not all(_NAME.fullmatch(part) for part in parts):
        raise CheckpointError(
            f"{address!r} is not a local checkpoint", hint=f"Such a path reads {SCHEME}<run>/{KINDS[0]}/<name>."
        )
    run, found_kind, name = parts
    folder = run_root / run / found_kind / name
    if found_kind not in KINDS or not folder.is_dir():
        known = list_checkpoints(run_root, run) or list_checkpoints(run_root)
        there = f"There are: {', '.join(known[-8:])}." if known else f"There is none under {run_root}."
        raise CheckpointError(f"unknown checkpoint {address}", hint=there)
    if kind is not None and found_kind != kind:
        raise CheckpointError(
            f"{address} is a {found_kind} path", hint=f"A {kind} path is needed here; both are printed at each save."
        )
    try:
        read = json.loads((folder / "checkpoint.json").read_text(encoding="utf-8"))
        if read["format"] != FORMAT:
            raise CheckpointError(f"{address} has format {read['format']}; this version reads {FORMAT}")
        return Checkpoint(
            address=address,
            folder=folder,
            kind=read["kind"],
            lora=LoraSpec(**read["lora"]),
            base_model=read["base_model"],
            fingerprint=read["fingerprint"],
            steps=read["steps"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{address} is damaged: {folder}/checkpoint.json cannot be read ({error})") from error


def list_checkpoints(run_root: Path, run: str = "*") -> list[str]:
    """Addresses of all checkpoints under a run root, oldest first."""
    folders = [
        file.parent
        for kind in KINDS
        for file in run_root.glob(f"{run}/{kind}/*/checkpoint.json")
        if not file.parent.name.startswith(".")
    ]
    folders.sort(key=lambda folder: (folder.stat().st_mtime, str(folder)))
    return [f"{SCHEME}{folder.parent.parent.name}/{folder.parent.name}/{folder.name}" for folder in folders]


def restore(checkpoint: Checkpoint, trainer: Trainer, *, optimizer: bool) -> None:
    """Put saved numbers into a trainer of the same shape."""
    _copy_into(checkpoint, trainer.parameters, checkpoint.adapter())
    if optimizer:
        moments = checkpoint.moments()
        steps = moments.pop("step")
        trainer.steps = checkpoint.steps
        for name, weight in trainer.parameters.items():
            if f"exp_avg/{name}" in moments:
                trainer.optimizer.state[weight] = {
                    "step": steps.clone(),
                    "exp_avg": moments[f"exp_avg/{name}"].to(weight.device),
                    "exp_avg_sq": moments[f"exp_avg_sq/{name}"].to(weight.device),
                }


def _copy_into(checkpoint: Checkpoint, weights: dict[str, Tensor], saved: dict[str, Tensor]) -> None:
    import torch

    if weights.keys() != saved.keys() or any(weights[name].shape != saved[name].shape for name in weights):
        raise CheckpointError(f"{checkpoint.address} holds other layers than this run trains")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(saved[name])


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _moments(trainer: Trainer) -> dict[str, Tensor]:
    import torch

    tensors: dict[str, Tensor] = {"step": torch.tensor(float(trainer.steps))}
    for name, weight in trainer.parameters.items():
        state: dict[str, Any] = trainer.optimizer.state.get(weight, {})
        for moment in ("exp_avg", "exp_avg_sq"):
            if moment in state:
                tensors[f"{moment}/{name}"] = state[moment]
        if "step" in state:
            tensors["step"] = state["step"]
    return _plain(tensors)


def _read_tensors(checkpoint: Checkpoint, file: str) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    try:
        return load_file(checkpoint.folder / file)  # type: ignore[no-any-return]
    except Exception as error:
        raise CheckpointError(f"{checkpoint.address} is damaged: {file} cannot be read ({error})") from error


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
