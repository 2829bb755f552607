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
import heapq
import itertools
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, InvalidStateError
from dataclasses import dataclass, field

import numpy as np
import torch

from agentic_rl.errors import AgenticRLError, BackendError
from agentic_rl.policy.local.choose import Choice, choose_tokens, random_stream
from agentic_rl.policy.local.decoder import Decoder, Work
from agentic_rl.policy.local.forward import token_logprobs
from agentic_rl.policy.protocol import Completion, FinishReason, FloatArray

logger = logging.getLogger(__name__)

READ_CHUNK = 1024
"""A prompt is read in pieces of this many tokens, counted from where its slot ended: never a matter of the load."""


@dataclass(frozen=True, slots=True)
class Request:
    """`n` completions of one prompt; with `n` 0 only the prompt's own log-probabilities are wanted."""

    prompt: tuple[int, ...]
    n: int
    max_tokens: int = 0
    choice: Choice = Choice()
    stop_token_ids: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request came to.

    `prompt_logprobs` is filled when n is 0. `read_tokens` of the prompt were computed for this request,
    `reused_tokens` were still in a slot.
    """

    completions: tuple[Completion, ...]
    prompt_logprobs: FloatArray | None
    read_tokens: int
    reused_tokens: int


@dataclass(slots=True)
class EngineStats:
    """Running totals. `read_tokens` are prompt tokens computed, `reused_tokens` those found in a slot."""

    steps: int = 0
    read_tokens: int = 0
    reused_tokens: int = 0
    sampled_tokens: int = 0
    scored_tokens: int = 0


@dataclass(slots=True, eq=False)
class _Ticket:
    """A request under way."""

    request: Request
    future: Future[Answer]
    completions: list[Completion | None]
    read_tokens: int = 0
    reused_tokens: int = 0


@dataclass(slots=True, eq=False)
class _Sequence:
    """One completion (or one scoring) under way. `known` of its tokens are in its slot."""

    ticket: _Ticket
    index: int
    tokens: list[int]
    stream: np.random.Generator
    uniform: float
    followers: list[_Sequence] = field(default_factory=list)
    slot: int | None = None
    known: int = 0
    logprobs: list[float] = field(default_factory=list)

    @property
    def scoring(self) -> bool:
        return self.ticket.request.n == 0


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
        self._inbox: deque[_Ticket] = deque()
        self._scheduled = False
        self._closed = False
        # From here on only the worker thread reads or writes.
        self._waiting: deque[_Sequence] = deque()
        self._live: list[_Sequence] = []
        self._idle: OrderedDict[int, list[int]] = OrderedDict()
        self._free: list[int] = []
        self._slots_made = 0

    # -- called from any thread ------------------------------------------------------------------------------------

    def submit(self, request: Request) -> Future[Answer]:
        """Queue a request. Cancelling the future drops it at the next step."""
        self._check(request)
        ticket = _Ticket(request, Future(), [None] * request.n)
        with self._lock:
            if self._closed:
                raise BackendError("this sampler is closed", hint="Take a new snapshot.")
            self._inbox.append(ticket)
            if not self._scheduled:
                self._scheduled = True
                self._executor.submit(self._step)
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
        if not all(0 <= token < self._vocabulary for token in request.prompt):
            raise BackendError(f"the prompt has a token id outside 0..{self._vocabulary - 1}")
        if request.n and request.max_tokens < 1:
            raise BackendError(f"max_tokens {request.max_tokens} leaves nothing to sample")

    # -- the worker thread -----------------------------------------------------------------------------------------

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
            self._scheduled = bool(self._live or self._waiting or self._inbox)
            if not self._scheduled:
                return
            with contextlib.suppress(RuntimeError):
                self._executor.submit(self._step)
                return
        self._close()  # the thread was told to end: nobody would take the next step

    def _take_in(self) -> None:
        while self._inbox:
            ticket = self._inbox.popleft()
            if ticket.future.cancelled():
                continue
            request = ticket.request
            sequences = [self._sequence(ticket, j) for j in range(max(1, request.n))]
            sequences[0].followers = sequences[1:]
            self._waiting.append(sequences[0])

    @staticmethod
    def _sequence(ticket: _Ticket, index: int) -> _Sequence:
        stream = random_stream(ticket.request.seed, index)
        return _Sequence(ticket, index, list(ticket.request.prompt), stream, stream.random())

    def _admit(self) -> None:
        """Give slots to those that wait, in their order, as far as the memory goes."""
        while self._waiting:
            sequence = self._waiting[0]
            if sequence.ticket.future.cancelled():
                self._waiting.popleft()
                continue
            found = None if sequence.scoring else self._find(sequence.tokens)
            if found is not None:
                self._idle.move_to_end(found)
            if not self._make_room(len(sequence.tokens), new=found is None):
                return
            self._waiting.popleft()
            if found is None:
                sequence.slot, sequence.known = self._new_slot(), 0
            else:
                sequence.slot, content = self._idle.popitem()
                sequence.known = len(content)
            self._live.append(sequence)
            sequence.ticket.reused_tokens += sequence.known
            self.stats.reused_tokens += sequence.known

    def _find(self, tokens: list[int]) -> int | None:
        """The idle slot whose whole content begins `tokens`; the longest of them."""
        best, best_length = None, 0
        for slot, content in self._idle.items():
            length = len(content)
            if best_length < length < len(tokens) and tokens[length - 1] == content[-1] and tokens[:length] == content:
                best, best_length = slot, length
        return best

    def _make_room(self, tokens: int, *, new: bool) -> bool:
        """Whether one more sequence of that length may live. Idle slots give way, the longest unused first.

        Without `new` the last idle slot is the one to be used, and stays.
        """
        longest = max((len(other.tokens) for other in self._live), default=0)
        capacity = self._decoder.capacity(max(longest, tokens))
        if self._live and len(self._live) >= capacity:
            return False
        while len(self._idle) > (not new) and len(self._live) + len(self._idle) + new > capacity:
            self._free_slot(self._idle.popitem(last=False)[0])
        if self._slots_made > capacity:
            self._compact()
        return True

    def _compact(self) -> None:
        """Give the memory of unused slots back; the used ones get new numbers."""
        kept = [sequence.slot for sequence in self._live if sequence.slot is not None] + list(self._idle)
        self._decoder.keep(kept)
        number = {slot: i for i, slot in enumerate(kept)}
        for sequence in self._live:
            assert sequence.slot is not None
            sequence.slot = number[sequence.slot]
        self._idle = OrderedDict((number[slot], content) for slot, content in self._idle.items())
        self._free.clear()
        self._slots_made = len(kept)

    def _new_slot(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._slots_made += 1
        return self._slots_made - 1

    def _free_slot(self, slot: int) -> None:
        self._decoder.release(slot)
        heapq.heappush(self._free, slot)

    def _plan(self) -> list[tuple[_Sequence, Work]]:
        """One token of everyone who generates, and chunks of those who read, as many as fit (at least one)."""
        for sequence in [s for s in self._live if s.ticket.future.done()]:
            self._leave(sequence, keep=False)
        batch: list[tuple[_Sequence, Work]] = []
        reading = rows = 0
        for sequence in self._live:
            assert sequence.slot is not None
            start, end = sequence.known, len(sequence.tokens)
            if end - start > 1 or start == 0:
                end = min(end, start + (min(READ_CHUNK, self._logit_rows) if sequence.scoring else READ_CHUNK))
                new_rows = end - start if sequence.scoring else 1
                if reading and (reading + end - start > self._pass_tokens or rows + new_rows > self._logit_rows):
                    continue
                reading += end - start
                rows += new_rows
            batch.append((sequence, Work(sequence.slot, start, sequence.tokens[start:end], sequence.scoring)))
        return batch

    def _run(self, batch: list[tuple[_Sequence, Work]]) -> None:
        logits = self._decoder.forward([work for _, work in batch])
        self.stats.steps += 1
        row = 0
        choosing: list[tuple[_Sequence, int]] = []
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

    def _score(self, sequence: _Sequence, work: Work, logits: torch.Tensor) -> None:
        targets = sequence.tokens[work.start + 1 : work.start + 1 + len(work.tokens)]
        if targets:
            wanted = torch.tensor(targets, device=logits.device)
            sequence.logprobs += token_logprobs(logits[: len(targets)], wanted).tolist()
        self.stats.scored_tokens += len(work.tokens)
        sequence.ticket.read_tokens += len(work.tokens)
        if sequence.known == len(sequence.tokens):
            ticket = sequence.ticket
            logprobs = np.array([0.0, *sequence.logprobs])
            self._leave(sequence, keep=False)
            _resolve(ticket.future, Answer((), logprobs, ticket.read_tokens, 0))

    def _fork(self, leader: _Sequence) -> list[_Sequence]:
        """Start the other completions of the leader's prompt from what it has read."""
        followers, leader.followers = leader.followers, []
        started = []
        for follower in followers:
            if self._make_room(len(follower.tokens), new=True):
                follower.slot, follower.known = self._new_slot(), leader.known
                self._live.append(follower)
                started.append(follower)
            else:
                self._waiting.append(follower)
        if started:
            assert leader.slot is not None
            self._decoder.fork(leader.slot, [f.slot for f in started if f.slot is not None], leader.known)
        return started

    def _choose(self, choosing: list[tuple[_Sequence, int]], logits: torch.Tensor) -> None:
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

    def _finished(self, sequence: _Sequence, token: int) -> FinishReason | None:
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

    def _complete(self, sequence: _Sequence, reason: FinishReason) -> None:
        ticket = sequence.ticket
        sampled = tuple(sequence.tokens[len(ticket.request.prompt) :])
        ticket.completions[sequence.index] = Completion(sampled, tuple(sequence.logprobs), reason)
        self._leave(sequence, keep=True)
        done = [completion for completion in ticket.completions if completion is not None]
        if len(done) == ticket.request.n:
            _resolve(ticket.future, Answer(tuple(done), None, ticket.read_tokens, ticket.reused_tokens))

    def _leave(self, sequence: _Sequence, *, keep: bool) -> None:
        self._live.remove(sequence)
        assert sequence.slot is not None
        if keep and sequence.known:
            self._idle[sequence.slot] = sequence.tokens[: sequence.known]
        else:
            self._free_slot(sequence.slot)

    def _fail_all(self, error: Exception) -> None:
        """A pass failed: everyone in it gets the reason, and the engine starts over with empty slots."""
        logger.warning("sampling failed: %s", error, exc_info=not isinstance(error, AgenticRLError))
        tickets = {id(s.ticket): s.ticket for s in itertools.chain(self._live, self._waiting)}
        self._forget()
        for ticket in tickets.values():
            first_line = str(error).strip().split("\n")[0]
            _reject(ticket.future, BackendError(f"sampling failed: {type(error).__name__}: {first_line}"))

    def _close(self) -> None:
        self._take_in()
        tickets = {id(s.ticket): s.ticket for s in itertools.chain(self._live, self._waiting)}
        self._forget()
        for ticket in tickets.values():
            _reject(ticket.future, BackendError("the sampler was closed while this request was under way"))

    def _forget(self) -> None:
        self._live.clear()
        self._waiting.clear()
        self._idle.clear()
        self._free.clear()
        self._slots_made = 0
        self._decoder.close()


def _resolve(future: Future[Answer], answer: Answer) -> None:
    # The caller may cancel at any moment, also between a check and this line.
    with contextlib.suppress(InvalidStateError):
        future.set_result(answer)


def _reject(future: Future[Answer], error: Exception) -> None:
    with contextlib.suppress(InvalidStateError):
        future.set_exception(error)
