"""A server in this process, on a free port, for tests that drive it over HTTP."""

from __future__ import annotations

import contextlib
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


@contextlib.contextmanager
def serving(model: Path | str, state_dir: Path, *, port: int = 0, **settings: Any) -> Iterator[Server]:
    """Serve `model` under the seeds' name until the block ends."""
    from agentic_rl.serving.app import build_app
    from agentic_rl.serving.local import LocalEngine
    from agentic_rl.serving.settings import ServerSettings

    engine = LocalEngine.load(str(model), scratch=state_dir, device="cpu")
    options = {"api_key": API_KEY, "served_names": (MODEL,), "port": port, "state_dir": state_dir} | settings
    app = build_app(engine, ServerSettings(**options))
    config = uvicorn.Config(app, "127.0.0.1", port, log_level="error", timeout_keep_alive=120)
    socket = config.bind_socket()
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{socket.getsockname()[1]}"
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    running = Server(url, app.state.context, server, thread)
    try:
        yield running
    finally:
        if thread.is_alive():
            running.stop()
