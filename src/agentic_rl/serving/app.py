"""The ASGI application: routes, the gate before them, and what happens at start and stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentic_rl.serving.actor import Actor
from agentic_rl.serving.context import Context
from agentic_rl.serving.control import Control
from agentic_rl.serving.engine import Engine
from agentic_rl.serving.faults import FaultyTransport
from agentic_rl.serving.http import Gate, problem
from agentic_rl.serving.settings import ServerSettings


def build_app(engine: Engine, settings: ServerSettings) -> Starlette:
    """The server around a loaded engine. `app.state.context` is its inside."""
    context = Context(engine, settings)

    async def healthz(request: Request) -> Response:
        return JSONResponse({"status": "ok", "models": list(settings.served_names)})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tidying = asyncio.create_task(context.tidy())
        yield
        tidying.cancel()
        await context.aclose()

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "request_failed")
        return problem(error.status_code, code, error.detail)

    app = Starlette(
        routes=[Route("/healthz", healthz), *Actor(context).routes, *Control(context).routes],
        middleware=[
            Middleware(Gate, api_key=settings.api_key, tokens=context.tokens, faults=context.faults),
            *([Middleware(FaultyTransport, faults=context.faults)] if settings.faults else []),
        ],
        exception_handlers={HTTPException: refused},
        lifespan=lifespan,
    )
    app.state.context = context
    return app
