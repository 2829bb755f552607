"""What is asked of the engine, what comes back, and what is under way between the two."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

import numpy as np

from agentic_rl.policy.local.choose import Choice, random_stream
from agentic_rl.policy.protocol import Completion, FloatArray


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
class Ticket:
    """A request under way."""

    request: Request
    future: Future[Answer]
    completions: list[Completion | None]
    read_tokens: int = 0
    reused_tokens: int = 0

    @classmethod
    def of(cls, request: Request) -> Ticket:
        return cls(request, Future(), [None] * request.n)

    def sequences(self) -> Running:
        """Its first sequence, with the others as followers that wait for what it reads."""
        first, *followers = [Running.of(self, j) for j in range(max(1, self.request.n))]
        first.followers = followers
        return first

    def complete(self, index: int, completion: Completion) -> None:
        """Note one completion; the last one answers the request."""
        self.completions[index] = completion
        done = [completion for completion in self.completions if completion is not None]
        if len(done) == self.request.n:
            self.resolve(Answer(tuple(done), None, self.read_tokens, self.reused_tokens))

    def resolve(self, answer: Answer) -> None:
        # The caller may cancel at any moment, also between a check and this line.
        with contextlib.suppress(InvalidStateError):
            self.future.set_result(answer)

    def reject(self, error: Exception) -> None:
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)


@dataclass(slots=True, eq=False)
class Running:
    """One completion (or one scoring) under way. `known` of its tokens are in its slot (-1 before it has one)."""

    ticket: Ticket
    index: int
    tokens: list[int]
    stream: np.random.Generator
    uniform: float
    followers: list[Running] = field(default_factory=list)
    slot: int = -1
    known: int = 0
    logprobs: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, ticket: Ticket, index: int) -> Running:
        stream = random_stream(ticket.request.seed, index)
        return cls(ticket, index, list(ticket.request.prompt), stream, stream.random())

    @property
    def scoring(self) -> bool:
        return self.ticket.request.n == 0

    @property
    def reading(self) -> bool:
        """Whether more than one token, or a first one, is still to be read."""
        return self.known == 0 or len(self.tokens) - self.known > 1
