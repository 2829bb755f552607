"""A base model with its worker thread, and the samplers that live on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakSet

import torch
from torch import nn

from agentic_rl.policy.local.choose import Choice
from agentic_rl.policy.local.engine import Answer, Engine, EngineStats, Request
from agentic_rl.policy.local.loading import BaseModel
from agentic_rl.policy.local.lora import LoraSpec, adapter_digest, attach_lora, frozen_copy, share_weights
from agentic_rl.policy.local.memory import usable_memory
from agentic_rl.policy.local.probe import OpenDecoder, choose_decoder
from agentic_rl.policy.local.slot_pool import SlotPool
from agentic_rl.policy.local.trainer import Trainer
from agentic_rl.policy.protocol import Completion, FloatArray, SamplingParams

_LOGIT_NUMBERS = 1 << 27
"""How many logits one pass may hold while scoring: 512 MiB of float32."""

_SMALL_MODEL = 50_000_000
"""Parameters below which one torch thread does the work on the CPU."""


class Studio:
    """A base model with its worker thread: everything that shares the device.

    Any number of trainers and engines can live in one studio; their work is done in turns by its one thread, in the
    order of asking, and a sampling engine takes its turns step by step.

    Parameters
    ----------
    base
        From `load_base_model`.
    cache_bytes
        How much memory the slots of all samplers may take together.
    """

    def __init__(self, base: BaseModel, *, cache_bytes: int | None = None) -> None:
        self.base = base
        _settle_threads(base)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="agentic-rl-torch")
        self._pool = SlotPool(cache_bytes if cache_bytes is not None else _default_cache_bytes(base.device))
        self._open_decoder: OpenDecoder | None = None
        self._engines: WeakSet[Engine] = WeakSet()

    async def run[T](self, work: Callable[[], T]) -> T:
        """Do something in the worker thread."""
        return await asyncio.wrap_future(self._executor.submit(work))

    def new_trainer(self, lora: LoraSpec, **options: Any) -> Trainer:
        """A fresh adapter with its optimizer. Call it in the worker thread."""
        large = sum(weight.numel() for weight in self.base.model.parameters()) > 500_000_000
        options.setdefault("micro_batch_tokens", 2048 if self.base.device.type == "cpu" else 16384)
        options.setdefault("checkpoint_activations", large)
        return Trainer(attach_lora(self.base.model, lora), **options)

    def new_engine(self, model: nn.Module) -> Engine:
        """An engine over a frozen copy of weights. Call it in the worker thread."""
        if self._open_decoder is None:
            self._open_decoder = choose_decoder(self.base.model)
        vocabulary = self.base.model.config.get_text_config().vocab_size  # type: ignore[union-attr, operator]
        engine = Engine(
            self._open_decoder(model, self._pool),
            self._executor,
            decode=lambda tokens: self.base.tokenizer.decode(tokens, skip_special_tokens=False),
            max_tokens=self.base.max_tokens,
            vocabulary=min(vocabulary, len(self.base.tokenizer)),
            logit_rows=max(256, _LOGIT_NUMBERS // vocabulary),
        )
        for other in self._engines:
            other.make_way()
        self._engines.add(engine)
        return engine

    def snapshot(self, trainer: Trainer, *, owns_studio: bool = False) -> LocalSampler:
        """The trainer's weights as they are now. Call it in the worker thread."""
        digest = f"{self.base.fingerprint}-{adapter_digest(trainer.model)}"
        return LocalSampler(
            self.new_engine(frozen_copy(trainer.model)), id=f"local:{digest}", studio=self, owns_studio=owns_studio
        )

    def base_sampler(self, *, owns_studio: bool = False) -> LocalSampler:
        """The base model without an adapter. Call it in the worker thread."""
        engine = self.new_engine(share_weights(self.base.model))
        return LocalSampler(engine, id=f"local:{self.base.fingerprint}", studio=self, owns_studio=owns_studio)

    def close(self) -> None:
        """Let the thread end once its work is done."""
        self._executor.shutdown(wait=False)


class LocalSampler:
    """A frozen snapshot behind the `Sampler` protocol."""

    def __init__(self, engine: Engine, *, id: str, studio: Studio, owns_studio: bool = False) -> None:
        self._engine = engine
        self._id = id
        self._studio = studio
        self._owns_studio = owns_studio

    @property
    def id(self) -> str:
        return self._id

    @property
    def stats(self) -> EngineStats:
        """Tokens read, reused, sampled and scored so far."""
        return self._engine.stats

    @property
    def tokenizer(self) -> Any:
        """The base model's tokenizer."""
        return self._studio.base.tokenizer

    async def sample(self, prompt: Sequence[int], n: int, params: SamplingParams) -> list[Completion]:
        request = Request(
            prompt=tuple(prompt),
            n=n,
            max_tokens=params.max_tokens,
            choice=Choice(params.temperature, params.top_p),
            stop_token_ids=frozenset(params.stop_token_ids),
            seed=params.seed,
        )
        return list((await self.ask(request)).completions)

    async def score(self, tokens: Sequence[int]) -> FloatArray:
        answer = await self.ask(Request(prompt=tuple(tokens), n=0))
        assert answer.prompt_logprobs is not None
        return answer.prompt_logprobs

    async def ask(self, request: Request) -> Answer:
        """`sample` and `score` with everything the engine knows: top-k, stop strings, counts of tokens read."""
        return await asyncio.wrap_future(self._engine.submit(request))

    async def aclose(self) -> None:
        await asyncio.wrap_future(self._engine.close())
        if self._owns_studio:
            self._studio.close()


def _default_cache_bytes(device: torch.device) -> int:
    """A third of the memory that is there: what is free on CUDA, what this process may use on the CPU."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] // 3)
    return usable_memory() // 3


def _settle_threads(base: BaseModel) -> None:
    """One torch thread for a small model on the CPU, unless OMP_NUM_THREADS says otherwise.

    Its operations are too short to share: on a busy machine threads that wait for each other burn twenty times the
    work, and the sums of a gradient would depend on the number of cores.
    """
    small = sum(weight.numel() for weight in base.model.parameters()) < _SMALL_MODEL
    if base.device.type == "cpu" and small and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
