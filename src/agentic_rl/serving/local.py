"""The local engine as the server uses it: one base model, many adapters, one worker thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentic_rl.errors import AgenticRLError
from agentic_rl.policy.local.checkpoints import Kind, find_checkpoint, restore, save_checkpoint
from agentic_rl.policy.local.choose import Choice
from agentic_rl.policy.local.engine import Request
from agentic_rl.policy.local.forward import logits_at
from agentic_rl.policy.local.loading import load_base_model
from agentic_rl.policy.local.lora import LoraSpec, attach_lora, frozen_copy, share_weights
from agentic_rl.policy.local.studio import LocalSampler, Studio
from agentic_rl.policy.local.trainer import Example, Trainer
from agentic_rl.policy.protocol import AdamConfig, Completion, FloatArray
from agentic_rl.serving.engine import ForwardResult, SamplingOrder, TrainingItem
from agentic_rl.serving.losses import WireLoss
from agentic_rl.serving.store import Lora
from agentic_rl.serving.wire import OperationError

NAME = "adapter"
"""Every checkpoint folder of the server holds one checkpoint of the local engine, under this name."""

TOP_ROWS = 512


class LocalEngine:
    """A `serving.engine.Engine` over a `Studio`.

    Parameters
    ----------
    studio
        The base model and its thread.
    folder
        Where clients find the tokenizer; made from the loaded one where the model came from a hub.
    """

    def __init__(self, studio: Studio, folder: Path) -> None:
        self._studio = studio
        self._folder = folder

    @classmethod
    def load(cls, base_model: str, *, scratch: Path, device: str | None = None) -> LocalEngine:
        """Load a base model; `scratch` takes the tokenizer's files if they are in no folder yet."""
        base = load_base_model(base_model, device=device)
        folder = Path(base.location)
        if not folder.is_dir():
            folder = scratch / "tokenizer"
            base.tokenizer.save_pretrained(folder)
            base.model.config.save_pretrained(folder)  # type: ignore[union-attr, operator]
        return cls(Studio(base), folder.resolve())

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def fingerprint(self) -> str:
        return self._studio.base.fingerprint

    @property
    def tokenizer(self) -> Any:
        return self._studio.base.tokenizer

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        return self._studio.base.eos_token_ids

    @property
    def vocabulary(self) -> int:
        return len(self._studio.base.tokenizer)

    @property
    def context_length(self) -> int | None:
        return self._studio.base.max_tokens

    async def run[T](self, work: Callable[[], T]) -> T:
        return await self._studio.run(work)

    def learner(self, lora: Lora, *, source: Path | None, optimizer: bool) -> LocalLearner:
        trainer = self._studio.new_trainer(_spec(lora))
        if source is not None:
            _restore(trainer, source, optimizer=optimizer)
        return LocalLearner(self._studio, trainer, _spec(lora))

    def sampler(self, source: Path | None, lora: Lora | None) -> LocalServedSampler:
        if source is None or lora is None:
            model = share_weights(self._studio.base.model)
        else:
            trainer = Trainer(attach_lora(self._studio.base.model, _spec(lora)))
            _restore(trainer, source, optimizer=False)
            model = frozen_copy(trainer.model)
        return LocalServedSampler(self._studio, model)

    def close(self) -> None:
        self._studio.close()


class LocalLearner:
    """A `serving.engine.Learner` over a `Trainer`."""

    def __init__(self, studio: Studio, trainer: Trainer, lora: LoraSpec) -> None:
        self._studio = studio
        self._trainer = trainer
        self._lora = lora

    @property
    def steps(self) -> int:
        return self._trainer.steps

    def forward(self, items: Sequence[TrainingItem], loss: WireLoss, *, backward: bool) -> ForwardResult:
        examples = [
            Example(
                tokens=item.tokens,
                targets=item.targets,
                old_logprobs=item.old_logprobs,
                advantages=item.advantages,
                weights=item.weights,
                wanted=item.active,
            )
            for item in items
        ]
        work = self._trainer.forward_backward if backward else self._trainer.forward
        try:
            outcome = work(examples, loss.of_tokens())
        except AgenticRLError as error:
            raise OperationError("operation_failed", str(error)) from error
        if not np.isfinite(outcome.loss):
            raise OperationError("operation_failed", f"the loss is {outcome.loss}; check log-probs and advantages")
        return ForwardResult(
            tuple(_spread(found, item) for found, item in zip(outcome.logprobs, items, strict=True)), outcome.loss
        )

    def step(self, adam: AdamConfig) -> Mapping[str, float]:
        try:
            return self._trainer.step(adam)
        except AgenticRLError as error:
            raise OperationError("operation_failed", str(error)) from error

    def has_gradient(self) -> bool:
        return bool(self._trainer.gradient())

    def save(self, folder: Path, *, optimizer: bool) -> None:
        base = self._studio.base
        kind: Kind = "training_state" if optimizer else "sampler_weights"
        save_checkpoint(
            folder, kind, NAME, self._trainer, self._lora, base_model=base.name, fingerprint=base.fingerprint
        )


class LocalServedSampler:
    """A `serving.engine.ServedSampler` over a `LocalSampler`."""

    def __init__(self, studio: Studio, model: torch.nn.Module) -> None:
        self._studio = studio
        self._model = model
        self._sampler = LocalSampler(studio.new_engine(model), id="served", studio=studio)

    async def sample(self, order: SamplingOrder) -> Sequence[Completion]:
        request = Request(
            prompt=order.prompt,
            n=order.n,
            max_tokens=order.max_tokens,
            choice=Choice(order.temperature, order.top_p, order.top_k),
            stop_token_ids=frozenset(order.stop_token_ids),
            stop_strings=order.stop_strings,
            seed=order.seed,
        )
        return (await self._sampler.ask(request)).completions

    async def score(self, tokens: Sequence[int]) -> FloatArray:
        return await self._sampler.score(tokens)

    async def top(self, tokens: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        return await self._studio.run(lambda: self._top(tokens, k))

    async def aclose(self) -> None:
        await self._sampler.aclose()

    def _top(self, tokens: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        # The engine has given the model an attention of its own; a plain pass goes through a copy of the modules.
        model = share_weights(self._model)
        model.set_attn_implementation("sdpa")  # type: ignore[operator]
        ids = torch.tensor([list(tokens)], device=self._studio.base.device)
        found: list[list[tuple[int, float]]] = []
        with torch.inference_mode():
            for first in range(0, len(tokens) - 1, TOP_ROWS):
                rows = torch.arange(first, min(first + TOP_ROWS, len(tokens) - 1), device=ids.device)
                logits = logits_at(model, ids, rows, use_cache=False)[:, : len(self._studio.base.tokenizer)]
                best = logits.log_softmax(-1).topk(min(k, logits.shape[-1]), dim=-1)
                for indices, values in zip(best.indices.tolist(), best.values.tolist(), strict=True):
                    found.append(list(zip(indices, values, strict=True)))
        return found


def _spec(lora: Lora) -> LoraSpec:
    return LoraSpec(
        rank=lora.rank,
        seed=lora.seed or 0,
        train_attn=lora.train_attn,
        train_mlp=lora.train_mlp,
        train_unembed=lora.train_unembed,
    )


def _restore(trainer: Trainer, folder: Path, *, optimizer: bool) -> None:
    kind = "training_state" if (folder / "training_state").is_dir() else "sampler_weights"
    try:
        checkpoint = find_checkpoint(f"local://{folder.name}/{kind}/{NAME}", folder.parent)
        restore(checkpoint, trainer, optimizer=optimizer)
    except AgenticRLError as error:
        raise OperationError("checkpoint_damaged", str(error)) from error


def _spread(found: FloatArray, item: TrainingItem) -> FloatArray:
    """Shape (N,): the log-probabilities at the active positions, 0 elsewhere."""
    spread = np.zeros(len(item.tokens))
    spread[item.active] = found
    return spread
