"""Sampling runs: weights are loaded at the first request, shared by address, and let go when others need the place."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from agentic_rl.policy.protocol import Completion, FinishReason
from agentic_rl.serving import wire
from agentic_rl.serving.engine import Engine, SamplingOrder, ServedSampler
from agentic_rl.serving.identity import now
from agentic_rl.serving.store import Store
from agentic_rl.serving.training import TrainingRuns
from agentic_rl.serving.wire import OperationError, WireError

logger = logging.getLogger(__name__)

ANSWERS_KEPT_SECONDS = 600.0
GRACE_SECONDS = 3.0
"""A client whose connection broke comes back with the same request id; so long its generation goes on."""

SETTLED_SECONDS = 5.0
"""Weights that nobody has asked for so long make way when other weights are asked for."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A checked body of `POST sample`."""

    id: str
    order: SamplingOrder
    return_text: bool
    return_token_logprobs: bool
    return_prompt_logprobs: bool
    topk_prompt_logprobs: int

    @property
    def only_scores(self) -> bool:
        """What `compute_logprobs` sends: nothing of the generation is looked at."""
        return (
            self.return_prompt_logprobs
            and self.order.max_tokens == 1
            and not (self.return_text or self.return_token_logprobs)
        )


@dataclass(slots=True)
class _Loaded:
    sampler: asyncio.Task[ServedSampler]
    users: int = 0


@dataclass(slots=True)
class _Answer:
    """One request under way or done; whoever sends its id again joins it."""

    task: asyncio.Task[dict[str, Any]]
    waiters: int = 0
    last_asked: float = field(default_factory=time.monotonic)


class SamplingRuns:
    """The sampling side of the server."""

    def __init__(self, engine: Engine, store: Store, *, context_length: int | None, loaded: int) -> None:
        self._engine = engine
        self._store = store
        self._context_length = context_length
        self._most_loaded = loaded
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()
        self._answers: dict[tuple[str, str], _Answer] = {}
        self._last_used: dict[str, datetime] = {}
        """When a checkpoint was last sampled from, by its address."""

    def parse(self, body: Mapping[str, Any]) -> SampleRequest:
        """Check a request; the limits that the SDK does not enforce are enforced here."""
        params = wire.mapping(body, "sampling_params", {})
        prompt = tuple(wire.chunk_tokens(body, "prompt", vocabulary=self._engine.vocabulary))
        max_tokens = wire.integer(params, "max_tokens", least=1)
        if not prompt:
            raise WireError(400, "empty_prompt", "the prompt is empty")
        stop_ids = wire.integers(params, "stop_token_ids", [])
        strings, ids = self._stop_strings(wire.strings(params, "stop", []))
        top_p = wire.number(params, "top_p", 1.0, least=0.0)
        if not 0 < top_p <= 1:
            raise wire.malformed("top_p must lie in (0, 1]")
        seed = wire.optional_integer(params, "seed")
        request = SampleRequest(
            id=wire.text(body, "request_id", most=128),
            order=SamplingOrder(
                prompt=prompt,
                n=wire.integer(body, "num_samples", 1, least=1, most=4096),
                max_tokens=max_tokens,
                temperature=wire.number(params, "temperature", 1.0, least=0.0),
                top_p=top_p,
                top_k=max(0, wire.integer(params, "top_k", -1)),
                stop_token_ids=tuple(stop_ids) if "stop_token_ids" in params else (*ids, *self._engine.eos_token_ids),
                stop_strings=strings,
                seed=random.getrandbits(31) if seed is None else seed,
            ),
            return_text=wire.flag(body, "return_text", False),
            return_token_logprobs=wire.flag(body, "return_token_logprobs", False),
            return_prompt_logprobs=wire.flag(body, "return_prompt_logprobs", False),
            topk_prompt_logprobs=wire.integer(body, "topk_prompt_logprobs", 0, least=0, most=self._engine.vocabulary),
        )
        longest = len(prompt) + (0 if request.only_scores else max_tokens)
        if self._context_length is not None and longest > self._context_length:
            sizes = f"{len(prompt)} prompt tokens and max_tokens {max_tokens}"
            raise WireError(400, "context_length_exceeded", f"{sizes} exceed the context of {self._context_length}")
        return request

    async def answer(self, run: str, request: SampleRequest) -> dict[str, Any]:
        """The answer to a request. The same id is never generated twice; nobody left waiting ends the generation."""
        key = (run, request.id)
        answer = self._answers.get(key)
        if answer is None or answer.task.cancelled() or (answer.task.done() and answer.task.exception()):
            answer = self._answers[key] = _Answer(asyncio.create_task(self._generate(run, request)))
        answer.waiters += 1
        try:
            return await asyncio.shield(answer.task)
        finally:
            answer.waiters -= 1
            answer.last_asked = time.monotonic()
            if not answer.task.done():
                asyncio.get_running_loop().call_later(GRACE_SECONDS, self._abandon, answer)

    @staticmethod
    def _abandon(answer: _Answer) -> None:
        if answer.waiters == 0:
            answer.task.cancel()

    def forget_old(self) -> None:
        """Let go of answers that were delivered long ago, and of what is known of weights that are no more."""
        oldest = time.monotonic() - ANSWERS_KEPT_SECONDS
        for key, answer in list(self._answers.items()):
            if answer.task.done() and answer.last_asked < oldest:
                del self._answers[key]
        for source in self._last_used.keys() - self._store.checkpoints.keys() - self._loaded.keys():
            del self._last_used[source]

    async def unload_idle(self, seconds: float) -> None:
        """Free the memory of weights that nobody has asked for in a while."""
        oldest = now() - timedelta(seconds=seconds)
        idle = [s for s, loaded in self._loaded.items() if loaded.users == 0 and self._last_used[s] < oldest]
        await self._unload(idle)

    def last_uses(self) -> Mapping[str, datetime]:
        """When each checkpoint was last sampled from, since this server's start."""
        return dict(self._last_used)

    def cancel_all(self) -> None:
        """End the generations under way."""
        for answer in self._answers.values():
            answer.task.cancel()

    async def aclose(self) -> None:
        self.cancel_all()
        await asyncio.gather(*(a.task for a in self._answers.values()), return_exceptions=True)
        await self._unload(list(self._loaded))

    async def _generate(self, run: str, request: SampleRequest) -> dict[str, Any]:
        record = self._store.sampling_runs.get(run)
        if record is None:
            raise WireError(404, "sampling_run_not_found", f"no sampling run {run}")
        try:
            async with self._weights(record.source) as sampler:
                prompt_logprobs, top, completions = await self._ask(sampler, request)
        except OperationError as error:
            raise WireError(404, error.code, error.message) from None
        answer: dict[str, Any] = {
            "request_id": request.id,
            "sampling_run": run,
            "sequences": [self._sequence(completion, request) for completion in completions],
            "usage": {
                "input_tokens": len(request.order.prompt),
                "output_tokens": sum(len(completion.tokens) for completion in completions),
            },
        }
        if prompt_logprobs is not None:
            answer["prompt_logprobs"] = prompt_logprobs
        if top is not None:
            answer["topk_prompt_logprobs"] = top
        return answer

    async def _ask(
        self, sampler: ServedSampler, request: SampleRequest
    ) -> tuple[list[float | None] | None, list[Any] | None, Sequence[Completion]]:
        logprobs: list[float | None] | None = None
        top: list[Any] | None = None
        if request.return_prompt_logprobs:
            logprobs = [None, *(float(value) for value in (await sampler.score(request.order.prompt))[1:])]
        if request.topk_prompt_logprobs:
            top = [None, *await sampler.top(request.order.prompt, request.topk_prompt_logprobs)]
        if request.only_scores:
            nothing = Completion(tokens=(), logprobs=(), finish_reason=FinishReason.LENGTH)
            return logprobs, top, [nothing] * request.order.n
        return logprobs, top, await sampler.sample(request.order)

    def _sequence(self, completion: Completion, request: SampleRequest) -> dict[str, Any]:
        tokens, logprobs, reason = list(completion.tokens), list(completion.logprobs), completion.finish_reason
        decode = self._engine.tokenizer.decode
        cut = None
        if request.order.stop_strings and (cut := first_match(tokens, request.order.stop_strings, decode)) is not None:
            tokens, logprobs, reason = tokens[: cut[0]], logprobs[: cut[0]], FinishReason.STOP
        text = None
        if request.return_text:
            # A stop token is part of the tokens, so that it can be trained; the text ends before it.
            stopped = cut is None and reason is FinishReason.STOP
            text = cut[1] if cut else decode(tokens[:-1] if stopped else tokens, skip_special_tokens=True)
        return {
            "tokens": tokens,
            "text": text,
            "logprobs": logprobs if request.return_token_logprobs else [],
            "stop_reason": reason.value,
        }

    def _stop_strings(self, strings: Sequence[str]) -> tuple[tuple[str, ...], list[int]]:
        """Stop strings that are one token are stopped at as tokens; the rest are looked for in the text."""
        ids: list[int] = []
        rest: list[str] = []
        for string in strings:
            encoded = self._engine.tokenizer.encode(string, add_special_tokens=False)
            special = len(encoded) == 1 and encoded[0] in self._engine.tokenizer.all_special_ids
            ids += encoded if special else []
            rest += [] if special else [string]
        return tuple(rest), ids

    @asynccontextmanager
    async def _weights(self, source: str) -> AsyncIterator[ServedSampler]:
        loaded = self._loaded.get(source)
        if loaded is None or (loaded.sampler.done() and loaded.sampler.exception()):
            loaded = self._loaded[source] = _Loaded(asyncio.create_task(self._load(source)))
        self._loaded.move_to_end(source)
        loaded.users += 1
        self._last_used[source] = now()
        try:
            yield await asyncio.shield(loaded.sampler)
        finally:
            loaded.users -= 1
            self._last_used[source] = now()
            idle = [name for name, other in self._loaded.items() if other.users == 0]
            await self._unload(idle[: max(0, len(self._loaded) - self._most_loaded)])

    async def _load(self, source: str) -> ServedSampler:
        # First, so that the new weights remember dialogues where the old ones did: that is up to a third of the memory.
        await self.unload_idle(SETTLED_SECONDS)
        folder = lora = None
        if source:
            checkpoint = TrainingRuns.usable(source, self._engine, self._store)
            folder, lora = self._store.folder(checkpoint), checkpoint.lora
        return await self._engine.run(lambda: self._engine.sampler(folder, lora))

    async def _unload(self, sources: Sequence[str]) -> None:
        # All leave the table before the first await, so that nobody picks up what is being closed.
        for loaded in [self._loaded.pop(source) for source in sources]:
            with contextlib.suppress(Exception):  # weights that could not be loaded hold nothing
                await (await loaded.sampler).aclose()


def first_match(tokens: Sequence[int], strings: Sequence[str], decode: Any) -> tuple[int, str] | None:
    """How many tokens it takes until a stop string stands in their text, and the text before it.

    The text is decoded with special tokens, because scripts stop at the text of special tokens too.
    """

    def found(count: int) -> int:
        text = decode(tokens[:count], skip_special_tokens=False)
        places = [place for string in strings if (place := text.find(string)) >= 0]
        return min(places, default=-1)

    if found(len(tokens)) < 0:
        return None
    low, high = 1, len(tokens)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) >= 0 else (middle + 1, high)
    return low, decode(tokens[:low], skip_special_tokens=False)[: found(low)]
