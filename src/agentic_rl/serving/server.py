"""uvicorn, told how this server stops."""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette

SHUTDOWN_SECONDS = 5
"""How long requests under way may take to end when the server is stopped; then they are cut off."""


class ServingProcess(uvicorn.Server):
    """Serves an application of `build_app` until it is stopped.

    Whoever waits for a sample or an event when that happens is answered at once, in a way that the SDK tries again: a
    server that is started anew on the same port and state finds its clients still there.
    """

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        # A client reuses its connections for long; one that is closed under its feet costs it a retry.
        super().__init__(
            uvicorn.Config(
                app,
                host,
                port,
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                timeout_keep_alive=120,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._context = app.state.context

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.begin_stop()
        await super().shutdown(sockets)
