"""The local backend: a policy that learns on this machine, and samplers of what was saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentic_rl.errors import BackendError, CheckpointError
from agentic_rl.policy.local.checkpoints import SAVED_AS, Kind, find_checkpoint, free_name, restore, save_checkpoint
from agentic_rl.policy.local.loading import load_base_model
from agentic_rl.policy.local.lora import LoraSpec
from agentic_rl.policy.local.losses import ppo, ratio_metrics, reduction_weights
from agentic_rl.policy.local.studio import LocalSampler, Studio
from agentic_rl.policy.local.trainer import Example, Trainer
from agentic_rl.policy.protocol import AdamConfig, Datum, LossConfig, SavedPaths


def open_local_policy(
    base_model: str,
    *,
    run_dir: Path,
    lora_rank: int = 32,
    seed: int = 0,
    train_unembed: bool = False,
    resume_from: str | None = None,
    device: str | None = None,
    cache_bytes: int | None = None,
    micro_batch_tokens: int | None = None,
) -> LocalPolicy:
    """A base model with a fresh adapter, or one that goes on from a saved state.

    Parameters
    ----------
    base_model
        A local folder, a hub id, or `builtin`.
    run_dir
        The run's own directory; checkpoints are written into it, and `local://<its name>/…` addresses them.
    lora_rank, seed, train_unembed
        Of the adapter (`lora.py`). When resuming, rank and `train_unembed` must be those of the saved state.
    resume_from
        `local://<run>/training_state/<name>`; the run is looked up beside `run_dir`.
    device
        `cpu` or `cuda`; None takes CUDA where there is one.
    cache_bytes
        How much memory all samplers together may use to remember sequences; None takes a third of the memory.
    micro_batch_tokens
        How many tokens go through the model at once in training; None chooses by device. Never changes the gradient.
    """
    checkpoint = None
    if resume_from is not None:
        checkpoint = find_checkpoint(resume_from, run_dir.parent, kind="training_state")
    base = load_base_model(base_model, device=device)
    lora = LoraSpec(rank=lora_rank, seed=seed, train_unembed=train_unembed)
    if checkpoint is not None:
        checkpoint.require_base(base.fingerprint, base_model)
        if (checkpoint.lora.rank, checkpoint.lora.train_unembed) != (lora_rank, train_unembed):
            raise CheckpointError(
                f"{resume_from} was trained with --lora-rank {checkpoint.lora.rank} and train_unembed "
                f"{checkpoint.lora.train_unembed}, not {lora_rank} and {train_unembed}"
            )
        lora = checkpoint.lora
    studio = Studio(base, cache_bytes=cache_bytes)
    options = {} if micro_batch_tokens is None else {"micro_batch_tokens": micro_batch_tokens}
    trainer = studio.new_trainer(lora, **options)
    if checkpoint is not None:
        restore(checkpoint, trainer, optimizer=True)
    return LocalPolicy(studio, trainer, lora, run_dir)


def open_local_sampler(
    base_model: str,
    model_path: str | None = None,
    *,
    run_root: Path = Path("runs"),
    device: str | None = None,
    cache_bytes: int | None = None,
) -> LocalSampler:
    """The base model, or with `model_path` (`local://<run>/sampler_weights/<name>`) what a run made of it."""
    checkpoint = None if model_path is None else find_checkpoint(model_path, run_root, kind="sampler_weights")
    base = load_base_model(base_model, device=device)
    studio = Studio(base, cache_bytes=cache_bytes)
    if checkpoint is None:
        return studio.base_sampler(owns_studio=True)
    checkpoint.require_base(base.fingerprint, base_model)
    trainer = studio.new_trainer(checkpoint.lora)
    restore(checkpoint, trainer, optimizer=False)
    return studio.snapshot(trainer, owns_studio=True)


def examples_of(datums: Sequence[Datum], loss: LossConfig) -> list[Example]:
    """What the trainer reads, with the reduction of the whole batch in the weights."""
    weights = reduction_weights([datum.sampled for datum in datums], loss.reduction)
    return [
        Example(datum.tokens, datum.targets, datum.old_logprobs, datum.advantages, of_datum, datum.sampled)
        for datum, of_datum in zip(datums, weights, strict=True)
    ]


class LocalPolicy:
    """A base model with a trainable adapter behind the `Policy` protocol."""

    rescoring_is_free = True

    def __init__(self, studio: Studio, trainer: Trainer, lora: LoraSpec, run_dir: Path) -> None:
        self._studio = studio
        self._trainer = trainer
        self._lora = lora
        self._run_dir = run_dir

    @property
    def tokenizer(self) -> Any:
        return self._studio.base.tokenizer

    @property
    def max_sequence_tokens(self) -> int | None:
        return self._studio.base.max_tokens

    @property
    def steps(self) -> int:
        """Optimizer steps made so far, those before a resume included."""
        return self._trainer.steps

    async def snapshot(self) -> LocalSampler:
        return await self._studio.run(lambda: self._studio.snapshot(self._trainer))

    async def update(self, datums: Sequence[Datum], loss: LossConfig, adam: AdamConfig) -> Mapping[str, float]:
        return await self._studio.run(lambda: self._update(datums, loss, adam))

    async def save(self, name: str) -> SavedPaths:
        return await self._studio.run(lambda: self._save(name))

    async def aclose(self) -> None:
        self._studio.close()

    def _update(self, datums: Sequence[Datum], loss: LossConfig, adam: AdamConfig) -> dict[str, float]:
        if not datums:
            raise BackendError("an update needs at least one trajectory")
        examples = examples_of(datums, loss)
        limit = self.max_sequence_tokens
        longest = max(len(example.tokens) for example in examples)
        if limit is not None and longest > limit:
            raise BackendError(
                f"a trajectory of {longest} tokens does not fit the model's {limit}",
                hint="Lower --max-trajectory-tokens.",
            )
        outcome = self._trainer.forward_backward(examples, ppo(loss.clip_low, loss.clip_high))
        steps = self._trainer.step(adam)
        new = np.concatenate(outcome.logprobs)
        old = np.concatenate([example.old_logprobs[example.wanted] for example in examples])
        advantages = np.concatenate([example.advantages[example.wanted] for example in examples])
        metrics = {
            "loss": outcome.loss,
            "entropy": outcome.entropy,
            "micro_batches": float(outcome.micro_batches),
            **ratio_metrics(new, old, advantages, loss.clip_low, loss.clip_high),
        }
        seconds = {"forward_backward": outcome.seconds, "optimizer": steps.pop("seconds")}
        return {
            **{f"trainer/{name}": value for name, value in metrics.items()},
            **{f"optimizer/{name}": value for name, value in steps.items()},
            **{f"time/{phase}_seconds": value for phase, value in seconds.items()},
        }

    def _save(self, name: str) -> SavedPaths:
        name = free_name(self._run_dir, name)
        return SavedPaths(
            state=self._save_one("training_state", name),
            sampler=self._save_one("sampler_weights", name),
        )

    def _save_one(self, kind: Kind, name: str) -> str:
        base = self._studio.base
        return save_checkpoint(
            self._run_dir,
            kind,
            name + SAVED_AS[kind],
            self._trainer,
            self._lora,
            base_model=base.name,
            fingerprint=base.fingerprint,
        )
