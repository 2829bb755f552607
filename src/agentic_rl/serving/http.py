"""Requests in, answers out: who may ask, how errors look, and nothing of our insides on the wire."""

from __future__ import annotations

import functools
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agentic_rl.serving.wire import OperationError, WireError, encode_msgpack

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from agentic_rl.serving.faults import Faults
    from agentic_rl.serving.identity import Tokens

logger = logging.getLogger(__name__)

MOST_BYTES = 512 << 20

type Handler = Callable[[Request], Awaitable[Response]]

_STATUS = {"checkpoint_not_found": 404, "model_not_found": 404, "checkpoint_exists": 409}


def answering(handler: Handler) -> Handler:
    """Turn what a handler raises into an answer. What nobody foresaw is 422: a 5xx would be retried for minutes."""

    @functools.wraps(handler)
    async def wrapped(request: Request) -> Response:
        try:
            return await handler(request)
        except WireError as error:
            return problem(error.status, error.code, error.message)
        except OperationError as error:
            return problem(_STATUS.get(error.code, 400), error.code, error.message)
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.url.path)
            return problem(422, "request_failed", type(error).__name__)

    return wrapped


def problem(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"code": code, "message": message}, status_code=status)


def reply(value: Mapping[str, Any]) -> Response:
    """An event's answer; MessagePack, because results hold bytes."""
    return Response(encode_msgpack(value), media_type="application/msgpack")


async def body_of(request: Request) -> bytes:
    """The body, if it is not absurdly large."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise WireError(413, "request_too_large", f"bodies may have at most {MOST_BYTES >> 20} MiB")
        parts.append(part)
    return b"".join(parts)


class Gate:
    """ASGI middleware: 401 to whoever has no key (control) or no token (actor); `/healthz` is open."""

    def __init__(self, app: ASGIApp, api_key: str, tokens: Tokens, faults: Faults) -> None:
        self.app = app
        self._api_key = api_key.encode()
        self._tokens = tokens
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        headers = dict(scope["headers"])
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        token = bearer.decode("latin-1").strip() if scheme.lower() == b"bearer" else ""
        if path == "/healthz" or path.startswith("/files/"):  # a file's address carries its own token
            allowed = True
        elif path.startswith("/v1/"):
            run = self._tokens.run_of(token)
            allowed = run is not None and not self._faults.expires(token)
            scope["run"] = run
        else:
            offered = headers.get(b"x-api-key", token.encode("latin-1"))
            allowed = hmac.compare_digest(offered, self._api_key)
        if allowed:
            await self.app(scope, receive, send)
        else:
            what = "token" if path.startswith("/v1/") else "API key"
            await problem(401, "unauthorized", f"the {what} is missing or wrong")(scope, receive, send)
