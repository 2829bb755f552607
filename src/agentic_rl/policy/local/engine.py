"""The sampling engine: many requests at once share the passes of one model.

All of an engine's torch work happens in the one worker thread, so the event loop stays free. A request is split into
sequences; every step takes one token of each sequence that is generating and a chunk of each that is still
reading. What a finished sequence has read stays in its slot, and the next request that begins with it
goes on from there: a dialogue's next turn reads its new tokens and nothing else.

What a sequence becomes never depends on the others: its random stream is its own, its chunks are cut at the same
places, and the decoder computes its rows alike in any company (`ragged.py`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future

import numpy as np
import torch

from agentic_rl.errors import AgenticRLError, BackendError
from agentic_rl.policy.local.choose import choose_tokens
from agentic_rl.policy.local.decoder import Decoder, Work
from agentic_rl.policy.local.forward import token_logprobs
from agentic_rl.policy.local.requests import Answer, EngineStats, Request, Running, Ticket
from agentic_rl.policy.local.shelf import Shelf
from agentic_rl.policy.protocol import Completion, FinishReason

__all__ = ["Answer", "Engine", "EngineStats", "Request"]

logger = logging.getLogger(__name__)

READ_CHUNK = 1024
"""A prompt is read in pieces of this many tokens, counted from where its slot ended: never a matter of the load."""


class Engine:
    """Serves one frozen model; see the module's docstring.

    Parameters
    ----------
    decoder
        The model with its slots.
    executor
        One worker thread, shared by everything that computes on the device.
    decode
        Tokens to text, for stop strings.
    max_tokens
        The longest sequence the model takes; None if there is no limit.
    vocabulary
        Ids from here on are padding of the embedding: never sampled, refused in prompts.
    pass_tokens
        About how many prompt tokens one pass may read.
    logit_rows
        How many rows of logits one pass may make while scoring (a matter of memory).
    """

    def __init__(
        self,
        decoder: Decoder,
        executor: Executor,
        *,
        decode: Callable[[Sequence[int]], str],
        max_tokens: int | None,
        vocabulary: int,
        pass_tokens: int = 2048,
        logit_rows: int = 4096,
    ) -> None:
        self._decoder = decoder
        self._executor = executor
        self._decode = decode
        self._max_tokens = max_tokens
        self._vocabulary = vocabulary
        self._pass_tokens = pass_tokens
        self._logit_rows = logit_rows
        self.stats = EngineStats()
        self._lock = threading.Lock()
        self._inbox: deque[Ticket] = deque()
        self._scheduled = False
        self._closed = False
        # From here on only the worker thread reads or writes.
        self._waiting: deque[Running] = deque()
        self._running: list[Running] = []
        self._shelf = Shelf(decoder)

    # -- called from any thread ------------------------------------------------------------------------------------

    def submit(self, request: Request) -> Future[Answer]:
        """Queue a request. Cancelling the future drops it at the next step."""
        self._check(request)
        ticket = Ticket.of(request)
        with self._lock:
            if self._closed:
                raise BackendError("this sampler is closed", hint="Take a new snapshot.")
            if not self._scheduled:
                try:
                    self._executor.submit(self._step)
                except RuntimeError as error:
                    raise BackendError("the worker thread has ended", hint="Open the policy again.") from error
                self._scheduled = True
            self._inbox.append(ticket)
        return ticket.future

    def close(self) -> Future[None]:
        """Refuse new requests, cancel those under way, and give the slots back. Harmless when done twice."""
        with self._lock:
            self._closed = True
        try:
            return self._executor.submit(self._close)
        except RuntimeError:  # the thread was told to end, so nothing is under way any more
            done: Future[None] = Future()
            done.set_result(None)
            return done

    def _check(self, request: Request) -> None:
        length = len(request.prompt)
        if not length:
            raise BackendError("an empty prompt cannot be continued or scored")
        if self._max_tokens is not None and length + (request.n > 0) > self._max_tokens:
            raise BackendError(
                f"a sequence of {length} tokens does not fit the model's {self._max_tokens}",
                hint="Lower --max-trajectory-tokens.",
            )
        if min(request.prompt) < 0 or max(request.prompt) >= self._vocabulary:
            raise BackendError(f"the prompt has a token id outside 0..{self._vocabulary - 1}")
        if request.n and request.max_tokens < 1:
            raise BackendError(f"max_tokens {request.max_tokens} leaves nothing to sample")

    # -- the worker thread -----------------------------------------------------------------------------------------

    def make_way(self) -> None:
        """Another engine begins: come down to this one's share of the memory. Call it in the worker thread."""
        if not self._closed:
            self._shelf.make_way(self._running)

    def _step(self) -> None:
        try:
            self._take_in()
            self._admit()
            batch = self._plan()
            if batch:
                self._run(batch)
        except Exception as error:
            self._fail_all(error)
        with self._lock:
            self._scheduled = bool(self._running or self._waiting or self._inbox)
            if not self._scheduled:
                return
            with contextlib.suppress(RuntimeError):
                self._executor.submit(self._step)
                return
        self._close()  # the thread was told to end: nobody would take the next step

    def _take_in(self) -> None:
        while self._inbox:
            ticket = self._inbox.popleft()
            if not ticket.future.cancelled():
                self._waiting.append(ticket.sequences())

    def _admit(self) -> None:
        """Give slots to those that wait, in their order, as far as the memory goes."""
        while self._waiting:
            sequence = self._waiting[0]
            if not sequence.ticket.future.cancelled():
                if not self._shelf.place(sequence, self._running):
                    return
                self._running.append(sequence)
                sequence.ticket.reused_tokens += sequence.known
                self.stats.reused_tokens += sequence.known
            self._waiting.popleft()

    def _plan(self) -> list[tuple[Running, Work]]:
        """One token of everyone who generates, and chunks of those who read, as many as fit (at least one)."""
        for sequence in [s for s in self._running if s.ticket.future.done()]:
            self._drop(sequence)
        batch: list[tuple[Running, Work]] = []
        reading = rows = 0
        for sequence in self._running:
            start, end = sequence.known, len(sequence.tokens)
            if sequence.reading:
                end = min(end, start + (min(READ_CHUNK, self._logit_rows) if sequence.scoring else READ_CHUNK))
                new_rows = end - start if sequence.scoring else 1
                if reading and (reading + end - start > self._pass_tokens or rows + new_rows > self._logit_rows):
                    continue
                reading += end - start
                rows += new_rows
            batch.append((sequence, Work(sequence.slot, start, sequence.tokens[start:end], sequence.scoring)))
        return batch

    def _run(self, batch: list[tuple[Running, Work]]) -> None:
        logits = self._decoder.forward([work for _, work in batch])
        self.stats.steps += 1
        row = 0
        choosing: list[tuple[Running, int]] = []
        for sequence, work in batch:
            count = len(work.tokens)
            first, row = row, row + (count if work.every_row else 1)
            sequence.known += count
            if sequence.scoring:
                self._score(sequence, work, logits[first:row])
            elif not sequence.logprobs:
                sequence.ticket.read_tokens += count
                self.stats.read_tokens += count
            if sequence.known == len(sequence.tokens) and not sequence.scoring:
                choosing.append((sequence, first))
                choosing.extend((follower, first) for follower in self._fork(sequence))
        if choosing:
            self._choose(choosing, logits)

    def _score(self, sequence: Running, work: Work, logits: torch.Tensor) -> None:
        targets = sequence.tokens[work.start + 1 : work.start + 1 + len(work.tokens)]
        if targets:
            wanted = torch.tensor(targets, device=logits.device)
            sequence.logprobs += token_logprobs(logits[: len(targets)], wanted).tolist()
        self.stats.scored_tokens += len(work.tokens)
        sequence.ticket.read_tokens += len(work.tokens)
        if sequence.known == len(sequence.tokens):
            ticket = sequence.ticket
            logprobs = np.array([0.0, *sequence.logprobs])
            self._drop(sequence)
            ticket.resolve(Answer((), logprobs, ticket.read_tokens, 0))

    def _fork(self, leader: Running) -> list[Running]:
        """Start the other completions of the leader's prompt from what it has read."""
        followers, leader.followers = leader.followers, []
        started = []
        for follower in followers:
            if self._shelf.place_empty(follower, self._running):
                follower.known = leader.known
                self._running.append(follower)
                started.append(follower)
            else:
                self._waiting.append(follower)
        if started:
            self._decoder.fork(leader.slot, [follower.slot for follower in started], leader.known)
        return started

    def _choose(self, choosing: list[tuple[Running, int]], logits: torch.Tensor) -> None:
        self.stats.sampled_tokens += len(choosing)
        with torch.inference_mode():
            rows = logits.index_select(0, torch.tensor([row for _, row in choosing], device=logits.device))
            allowed = rows
            if self._vocabulary < rows.shape[-1]:
                allowed = rows.clone()
                allowed[:, self._vocabulary :] = -torch.inf
            chosen = choose_tokens(
                allowed, [s.ticket.request.choice for s, _ in choosing], [s.uniform for s, _ in choosing]
            )
            logprobs = token_logprobs(rows, chosen).tolist()
        for (sequence, _), token, logprob in zip(choosing, chosen.tolist(), logprobs, strict=True):
            sequence.tokens.append(token)
            sequence.logprobs.append(logprob)
            sequence.uniform = sequence.stream.random()
            if (reason := self._finished(sequence, token)) is not None:
                self._complete(sequence, reason)

    def _finished(self, sequence: Running, token: int) -> FinishReason | None:
        request = sequence.ticket.request
        if token in request.stop_token_ids:
            return FinishReason.STOP
        if request.stop_strings:
            # A token may hold many characters or a part of one, so look back by tokens and then by text.
            window = max(len(stop.encode()) for stop in request.stop_strings) + 4
            text = self._decode(sequence.tokens[len(request.prompt) :][-window:])
            if any(stop in text for stop in request.stop_strings):
                return FinishReason.STOP
        full = self._max_tokens is not None and len(sequence.tokens) >= self._max_tokens
        if full or len(sequence.logprobs) >= request.max_tokens:
            return FinishReason.LENGTH
        return None

    def _complete(self, sequence: Running, reason: FinishReason) -> None:
        ticket = sequence.ticket
        sampled = tuple(sequence.tokens[len(ticket.request.prompt) :])
        self._running.remove(sequence)
        self._shelf.keep(sequence)
        ticket.complete(sequence.index, Completion(sampled, tuple(sequence.logprobs), reason))

    def _drop(self, sequence: Running) -> None:
        self._running.remove(sequence)
        self._shelf.release(sequence)

    def _fail_all(self, error: Exception) -> None:
        """A pass failed: everyone in it gets the reason, and the engine starts over with empty slots."""
        logger.warning("sampling failed: %s", error, exc_info=not isinstance(error, AgenticRLError))
        first_line = str(error).strip().split("\n")[0]
        self._reject_all(f"sampling failed: {type(error).__name__}: {first_line}")

    def _close(self) -> None:
        self._take_in()
        self._reject_all("the sampler was closed while this request was under way")

    def _reject_all(self, reason: str) -> None:
        tickets = {id(sequence.ticket): sequence.ticket for sequence in (*self._running, *self._waiting)}
        self._running.clear()
        self._waiting.clear()
        self._shelf.clear()
        for ticket in tickets.values():
            ticket.reject(BackendError(reason))
