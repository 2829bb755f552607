"""Training events: accepted at once, run one after another in the order of their run, kept until they are read."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentic_rl.serving.faults import Faults
from agentic_rl.serving.wire import OperationError, WireError

logger = logging.getLogger(__name__)

KEPT_SECONDS = 1800.0
"""How long a result waits to be read; an answer that is lost is asked for again."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that an operation read, wrote and trained on."""

    input_tokens: int = 0
    output_tokens: int = 0
    train_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operation leaves: its result and what it used."""

    result: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = Usage()


@dataclass(slots=True)
class Event:
    """One training operation on its way."""

    id: str
    type: str
    run: str
    index: int
    payload: Mapping[str, Any]
    status: Literal["accepted", "running", "succeeded", "failed"] = "accepted"
    outcome: Outcome = Outcome()
    error: Mapping[str, str] | None = None
    ended: float | None = None
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    def view(self) -> dict[str, Any]:
        """The event as the protocol shows it."""
        view: dict[str, Any] = {"version": 1, "event_id": self.id, "type": self.type, "status": self.status}
        if self.ended is not None:
            usage = self.outcome.usage
            view["usage"] = {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "train_tokens": usage.train_tokens,
            }
            view |= {"error": dict(self.error)} if self.error else {"result": dict(self.outcome.result)}
        return view


class EventQueue:
    (
        """First in, first out per run; runs take turns on the engine's one thread.

    Parameters
    ----------
    execute
        Does the work of an event; raises `OperationError` for what cannot be done.
    """
        ""
    )

    def __init__(self, execute: Callable[[Event], Awaitable[Outcome]], faults: Faults) -> None:
        self._execute = execute
        self._faults = faults
        self._events: dict[tuple[str, str], Event] = {}
        self._waiting: dict[str, deque[Event]] = {}
        self._last_index: dict[str, int] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()

    def submit(self, event: Event) -> Event:
        """Take an event in. An id that is known is refused with 409, which tells the client to poll for it."""
        if (event.run, event.id) in self._events:
            raise WireError(409, "event_exists", f"{event.id} was accepted before")
        if event.index <= self._last_index.get(event.run, 0):
            raise WireError(400, "event_out_of_order", f"the run has accepted event {event.index} already")
        self._last_index[event.run] = event.index
        self._events[event.run, event.id] = event
        self._waiting.setdefault(event.run, deque()).append(event)
        if event.run not in self._workers:
            self._workers[event.run] = asyncio.create_task(self._work(event.run))
        return event

    async def wait(self, event_id: str, run: str, seconds: float) -> Event:
        """The event, as soon as it has ended or the time is up."""
        event = self._events.get((run, event_id))
        if event is None:
            raise WireError(404, "event_not_found", f"no event {event_id}; it may have been lost with a restart")
        if event.ended is None and seconds > 0 and not self._stopping.is_set():
            waits = {asyncio.create_task(waited.wait()) for waited in (event.finished, self._stopping)}
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        return event

    def release(self) -> None:
        """Answer everyone who waits with what is known now, and let nobody wait from here on."""
        self._stopping.set()

    def busy(self, run: str) -> bool:
        """Whether events of the run wait or run."""
        return run in self._workers

    def forget_old(self) -> None:
        """Let go of the payloads and results that nobody has asked for in a long time."""
        oldest = time.monotonic() - KEPT_SECONDS
        for key, event in list(self._events.items()):
            if event.ended is not None and event.ended < oldest:
                del self._events[key]

    async def aclose(self) -> None:
        """Let what runs come to its end; what waits is dropped."""
        for queue in self._waiting.values():
            queue.clear()
        await asyncio.gather(*self._workers.values(), return_exceptions=True)

    async def _work(self, run: str) -> None:
        queue = self._waiting[run]
        while queue:
            event = queue.popleft()
            event.status = "running"
            try:
                if self._faults.strikes("failed-event"):
                    raise OperationError("internal_error", "injected fault: nothing was done")
                event.outcome = await self._execute(event)
                event.status = "succeeded"
            except OperationError as error:
                event.status, event.error = "failed", {"code": error.code, "message": error.message}
            except Exception as error:  # our own mistake, or the machine's: the run survives it
                logger.exception("event %s (%s) failed", event.id, event.type)
                event.status, event.error = (
                    "failed",
                    {"code": _code(error), "message": f"{type(error).__name__}: {error}"},
                )
            event.payload = {}
            event.ended = time.monotonic()
            event.finished.set()
        del self._workers[run]


def _code(error: Exception) -> str:
    return "out_of_memory" if "OutOfMemory" in type(error).__name__ else "operation_failed"
