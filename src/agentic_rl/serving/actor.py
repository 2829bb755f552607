"""The actor routes: training events in MessagePack, sampling and heartbeats in JSON, with a run's bearer token."""

from __future__ import annotations

import asyncio
import re

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentic_rl.serving import wire
from agentic_rl.serving.context import Context
from agentic_rl.serving.events import Event
from agentic_rl.serving.http import answering, body_of, reply
from agentic_rl.serving.identity import EVENT_ID, REQUEST_ID
from agentic_rl.serving.wire import WireError

HEARTBEAT_MS = 30_000
LONGEST_WAIT = 55.0
_WAIT = re.compile(r"wait=(\d{1,6})")


class Actor:
    """The handlers; `routes` is what the application mounts."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/v1/events", answering(self.submit), methods=["POST"]),
            Route("/v1/events/{event}", answering(self.poll), methods=["GET"]),
            Route("/v1/client/heartbeat", answering(self.heartbeat), methods=["POST"]),
            Route("/v1/sampling-runs/{run}/sample", answering(self.sample), methods=["POST"]),
        ]

    async def submit(self, request: Request) -> Response:
        run = self._training_run(request)
        raw = await body_of(request)
        # Megabytes of numbers take a while to unpack; the other clients must not wait for it.
        body = await asyncio.to_thread(wire.decode_msgpack, raw) if len(raw) > 1 << 16 else wire.decode_msgpack(raw)
        metadata = wire.mapping(body, "metadata")
        kind = wire.text(body, "type", most=64)
        event_id = wire.text(body, "event_id", most=80)
        if wire.integer(body, "version") != 1:
            raise wire.malformed("only version 1 of the envelope is known")
        if not EVENT_ID.match(event_id):
            raise wire.malformed("event_id must be event_ and letters or digits")
        if kind not in self._context.training.types:
            raise wire.malformed(f"unknown event type {kind!r}")
        if wire.text(metadata, "run_id", run, most=80) != run:
            raise WireError(403, "forbidden", "the token is that of another run")
        event = Event(
            id=event_id,
            type=kind,
            run=run,
            index=wire.integer(metadata, "index", least=1),
            payload=wire.mapping(body, "payload"),
        )
        self._context.training.touch(run)
        return reply(self._context.events.submit(event).view())

    async def poll(self, request: Request) -> Response:
        run = self._training_run(request)
        self._context.training.touch(run)
        wait = _WAIT.search(request.headers.get("prefer", ""))
        # The client gives up after the time that it asks us to wait, so the answer leaves five seconds earlier.
        seconds = min(max(float(wait[1]) - 5.0, 0.0), LONGEST_WAIT) if wait else 0.0
        event = await self._context.events.wait(request.path_params["event"], run, seconds)
        return reply(event.view())

    async def heartbeat(self, request: Request) -> Response:
        wire.decode_json(await body_of(request))
        self._context.training.touch(self._training_run(request))
        return JSONResponse({"heartbeat_ms": HEARTBEAT_MS})

    async def sample(self, request: Request) -> Response:
        run = request.path_params["run"]
        if request.scope["run"] != run:
            raise WireError(403, "forbidden", "the token is that of another run")
        if run not in self._context.store.sampling_runs:
            raise WireError(404, "sampling_run_not_found", f"no sampling run {run}; its weights may have expired")
        wanted = self._context.sampling.parse(wire.decode_json(await body_of(request)))
        if not REQUEST_ID.match(wanted.id):
            raise wire.malformed("request_id must be letters, digits, - and _")
        answer = asyncio.create_task(self._context.sampling.answer(run, wanted))
        gone = asyncio.create_task(_disconnected(request))
        gone.add_done_callback(lambda _: answer.cancel())
        try:
            return JSONResponse(await answer)
        except asyncio.CancelledError:
            if self._context.stopping:
                raise WireError(503, "server_stopping", "the server is being stopped; ask again") from None
            if gone.done() and not gone.cancelled():
                return Response(status_code=499)  # nobody is there to read it
            raise
        finally:
            gone.cancel()

    def _training_run(self, request: Request) -> str:
        run: str = request.scope["run"]
        if run not in self._context.store.runs:
            raise WireError(404, "training_run_not_found", f"no training run {run}")
        return run


async def _disconnected(request: Request) -> None:
    """Return when the client hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
