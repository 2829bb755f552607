"""TextWorld as the reference engine: one process for each episode, because its text parsers are not thread-safe."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import tempfile
import weakref
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from agentic_rl.errors import EnvironmentFailure, MissingExtraError
from agentic_rl.games.interface import StepResult
from agentic_rl.games.problem import read_record, read_text

INSTALL = "Run `uv sync --extra alfworld`."
REPLY_TIMEOUT_S = 300.0


def require_textworld() -> None:
    """Raise the one error a user needs if TextWorld is not installed."""
    for package in ("textworld", "alfworld"):
        if find_spec(package) is None:
            raise MissingExtraError(f"the TextWorld engine needs the package {package!r}", hint=INSTALL)


class TextWorldEpisode:
    """One play of a game on TextWorld. The process starts at the first reset and ends with `close`, or with us."""

    blocking = True

    def __init__(self, path: str | Path) -> None:
        require_textworld()
        self._child: _Child | None = None
        self.load(path)

    def load(self, path: str | Path) -> None:
        """Turn to another game; a process that runs goes on with it at the next reset, which saves its start."""
        read_record(read_text(Path(path)), str(path))
        self.path = Path(path)
        self._loaded = False

    def reset(self) -> StepResult:
        """Start the game, or start it again."""
        if self._child is None:
            self._child = _Child()
            self._loaded = False
        if not self._loaded:
            self._ask(["load", str(self.path)])
            self._loaded = True
        return _result(self._ask(["reset"]))

    def step(self, action: str) -> StepResult:
        """Carry out a command.

        Raises
        ------
        EnvironmentFailure
            The process died or did not answer; this episode is lost, others are not touched.
        """
        return _result(self._ask(["step", action]))

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.end()
            self._child = None

    @property
    def process_id(self) -> int | None:
        """The process that plays, while there is one."""
        return None if self._child is None else self._child.process.pid

    def _ask(self, request: list[str]) -> dict[str, Any]:
        if self._child is None or (not self._loaded and request[0] != "load"):
            raise EnvironmentFailure(f"{self.path}: a step before the first reset")
        try:
            return self._child.ask(request)
        except EnvironmentFailure as failure:
            raise EnvironmentFailure(f"{self.path}: {failure}") from None


def _result(reply: dict[str, Any]) -> StepResult:
    won = reply["won"]
    return StepResult(reply["observation"], tuple(reply["admissible"]), won, reply["done"], float(won))


class _Child:
    def __init__(self) -> None:
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agentic_rl.games.textworld_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            start_new_session=True,  # Ctrl-C is ours to handle: it must not kill a game in the middle of a step
        )
        self._poll = select.poll()  # unlike `select`, it takes file descriptors above 1023
        self._poll.register(self.process.stdout or 0, select.POLLIN)
        # Runs at the latest when the interpreter exits, be it by an error or by Ctrl-C.
        self.end = weakref.finalize(self, _end, self.process, self.stderr)

    def ask(self, request: list[str]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline() if self._poll.poll(1000 * REPLY_TIMEOUT_S) else b""
        except (OSError, ValueError):  # a broken pipe, or one that `end` has closed
            line = b""
        if not line.endswith(b"\n"):
            raise EnvironmentFailure(self._last_words())
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            self.end()
            raise EnvironmentFailure(f"TextWorld failed: {reply['error']}")
        return reply

    def _last_words(self) -> str:
        if not self.end.alive:
            return "the TextWorld process has ended"
        try:
            code: int | None = self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            code = None
        self.stderr.seek(0)
        last = self.stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
        self.end()
        fate = "did not answer" if code is None else f"died (exit code {code})"
        return f"the TextWorld process {fate}" + (f": {last}" if last else "")


def _end(process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
    process.kill()  # it holds nothing worth saving, and may be deep in the planner
    process.wait()
    for pipe in (process.stdin, process.stdout, stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):  # unsent bytes to a process that is gone
                pipe.close()
