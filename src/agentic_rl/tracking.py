"""Metrics behind one call: every update goes to `metrics.jsonl`, and SwanLab mirrors it.

The file is the record. SwanLab may be off, may be refused at the start (said at once, before anything is paid
for), and may fail later, which is said once and never stops the run.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from agentic_rl.errors import AgenticRLError

type SwanLabMode = Literal["online", "local", "offline", "disabled"]

logger = logging.getLogger(__name__)


class TrackingError(AgenticRLError):
    """SwanLab could not start."""


class Tracker:
    """Append one JSON object an update to `metrics.jsonl` and mirror it to SwanLab.

    Parameters
    ----------
    path
        The `metrics.jsonl` to append to; None writes no file (evaluations keep their own records).
    mode
        `online` needs a login; `local`, `offline` and `disabled` never ask for one.
    log_dir
        Where SwanLab puts its own files.

    Raises
    ------
    TrackingError
        SwanLab cannot start: not logged in, not reachable, or its dashboard is not installed.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        mode: SwanLabMode,
        project: str,
        name: str,
        log_dir: Path,
        config: Mapping[str, object],
    ) -> None:
        self._path = path
        self._swanlab = None if mode == "disabled" else _start_swanlab(mode, project, name, log_dir, config)

    def log(self, step: int, metrics: Mapping[str, float | int]) -> None:
        """Record one update. The line is on disk when the call returns."""
        if self._path is not None:
            line = json.dumps({"update": step, **metrics}, allow_nan=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())
        self.mirror(step, metrics)

    def mirror(self, step: int, metrics: Mapping[str, float | int]) -> None:
        """Show numbers in SwanLab that have a file of their own."""
        self._call(lambda swanlab: swanlab.log(dict(metrics), step=step))

    def close(self, *, failed: bool = False) -> None:
        """Finish the SwanLab run. Harmless when called twice."""
        self._call(lambda swanlab: swanlab.finish(state="crashed" if failed else "success"))
        self._swanlab = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(failed=kind is not None)

    def _call(self, call: Callable[[Any], object]) -> None:
        if self._swanlab is None:
            return
        try:
            call(self._swanlab)
        except Exception as error:  # a tracker that fails must not cost a run
            self._swanlab = None
            logger.warning("SwanLab stopped: %s; the run goes on, metrics.jsonl has everything", error)


def _start_swanlab(mode: str, project: str, name: str, log_dir: Path, config: Mapping[str, object]) -> Any:
    try:
        import swanlab

        log_dir.mkdir(parents=True, exist_ok=True)
        swanlab.init(project=project, name=name, mode=mode, log_dir=str(log_dir), config=dict(config), reinit=True)
    except (Exception, SystemExit) as error:  # swanlab exits the process for some refusals
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TrackingError(
            f"SwanLab could not start in mode {mode}: {reason}",
            hint="Run `swanlab login`, or choose --swanlab-mode offline or disabled",
        ) from error
    return swanlab
