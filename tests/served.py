"""A server in this process, on a free port, for tests that drive it over HTTP."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

API_KEY = "test-key"
MODEL = "Qwen/Qwen3.5-4B"


@dataclass
class Server:
    """A running server and its inside."""

    url: str
    context: Any
    app: Any
    uvicorn: uvicorn.Server
    thread: threading.Thread

    def control(self, **options: Any) -> httpx.Client:
        """A client of the control routes."""
        return httpx.Client(base_url=self.url, headers={"X-API-Key": API_KEY}, trust_env=False, timeout=30, **options)

    def stop(self) -> None:
        """Shut down as Ctrl-C does."""
        self.uvicorn.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()


@functools.cache
def _base() -> Any:
    from agentic_rl.policy.local.loading import load_base_model

    return load_base_model("builtin", device="cpu")


def fresh_engine() -> Any:
    """An engine as a new process would have it; only the base model is loaded once for all of them."""
    from agentic_rl.policy.local.studio import Studio
    from agentic_rl.serving.local import LocalEngine

    return LocalEngine(Studio(_base()), Path(_base().location))


@contextlib.contextmanager
def serving(state_dir: Path, *, port: int = 0, engine: Any = None, **settings: Any) -> Iterator[Server]:
    """Serve the built-in model under the seeds' name until the block ends."""
    from agentic_rl.serving.app import build_app
    from agentic_rl.serving.server import ServingProcess
    from agentic_rl.serving.settings import ServerSettings

    engine = engine or fresh_engine()
    options = {"api_key": API_KEY, "served_names": (MODEL,), "port": port, "state_dir": state_dir} | settings
    app = build_app(engine, ServerSettings(**options))
    server = ServingProcess(app, "127.0.0.1", port)
    socket = server.config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{socket.getsockname()[1]}"
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    running = Server(url, app.state.context, app, server, thread)
    try:
        yield running
    finally:
        gc.collect()  # clients that are done with close their sessions while somebody is there to hear it
        if thread.is_alive():
            running.stop()


def point_sdk_at(server: Server, home: Path, *, api_key: str = API_KEY) -> Any:
    """Let the SDK of this process speak to `server`, with a home folder of its own; returns the SDK."""
    import pytrio as trio

    trio.configure_observability(enabled=False)
    trio.configure(home=str(home), base_url=server.url, api_key=api_key)
    return trio


@contextlib.contextmanager
def garbage_kept() -> Iterator[None]:
    """Collect garbage at the end, in this thread.

    An SDK client that dies closes its session over HTTP, wherever the collector happens to run. In the server's own
    thread it would wait for itself.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
