"""`runs/<run-name>/`: the record of a run. SwanLab only mirrors it.

config.json             the resolved config, versions, and the hash of the games
metrics.jsonl           one object an update
trajectories/           one file an update: every turn that was played, with its advantage
checkpoints.json        every save: its update and its two paths
superseded/             what a resumed run had written beyond the state it went on from
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from agentic_rl.errors import RunDirectoryError
from agentic_rl.policy.protocol import SavedPaths

_VERSIONED = ("agentic-rl-lab", "numpy", "pytrio", "swanlab", "torch", "transformers", "peft", "alfworld", "textworld")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One save."""

    name: str
    update: int
    state: str
    sampler: str


class RunDirectory:
    """One run's folder, locked while the run lives.

    Raises
    ------
    RunDirectoryError
        The folder exists already (start) or is in use by another process.
    """

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self.path = path
        self._fresh = fresh  # until the run begins, a new folder can be taken back
        self._lock: IO[str] | None = None

    @classmethod
    def create(cls, parent: Path, run_name: str) -> Self:
        """Make the folder of a new run."""
        run = cls(parent / run_name, fresh=True)
        try:
            run.path.mkdir(parents=True)
        except FileExistsError:
            raise RunDirectoryError(
                f"{run.path} exists already",
                hint="Choose another --run-name, or go on with it: --resume <its `Saved state` path>",
            ) from None
        except OSError as error:
            raise RunDirectoryError(f"{run.path} cannot be made: {error.strerror}") from error
        run._acquire()
        return run

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Open the folder of a run that goes on."""
        run = cls(path, fresh=False)
        run._acquire()
        return run

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    def begin(self, config: Mapping[str, object], *, after: int, games: int, panel_hash: str) -> None:
        """Everything that could fail for free has been checked: from here on the folder stays.

        Writes the resolved config with what it was resolved against (a resumed run keeps the earlier ones), and moves
        its records beyond update `after` to `superseded/`: it goes on from there. Weights are not moved, since their
        addresses are known.
        """
        self._fresh = False
        self._set_aside_after(after)
        record = {
            "config": config,
            "games": games,
            "panel_hash": panel_hash,
            "python": platform.python_version(),
            "versions": {name: found for name in _VERSIONED if (found := _version(name))},
        }
        target = self.path / "config.json"
        for number in range(1, 10_000):
            if not target.exists():
                break
            target = self.path / f"config.resumed-{number}.json"
        _write_atomically(target, json.dumps(record, indent=2) + "\n")

    def write_trajectories(self, update: int, records: Iterable[Mapping[str, Any]]) -> Path:
        """Write every trajectory of one update."""
        target = self.path / "trajectories" / f"update-{update:05d}.jsonl"
        target.parent.mkdir(exist_ok=True)
        # plain ASCII: a model may write half a surrogate pair, which UTF-8 cannot hold
        _write_atomically(target, "".join(json.dumps(record) + "\n" for record in records))
        return target

    def record_checkpoint(self, name: str, update: int, paths: SavedPaths) -> None:
        """Add one save to `checkpoints.json`."""
        kept = [c for c in read_checkpoints(self.path) if c.name != name]
        kept.append(Checkpoint(name=name, update=update, state=paths.state, sampler=paths.sampler))
        _write_checkpoints(self.path, kept)

    def close(self) -> None:
        """Unlock the folder; take it back if its run never began, so that its name stays free."""
        if self._lock is None:
            return
        if self._fresh:
            shutil.rmtree(self.path, ignore_errors=True)
            with contextlib.suppress(OSError):  # others may have runs there
                self.path.parent.rmdir()
        self._lock.close()
        self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _acquire(self) -> None:
        lock = (self.path / ".lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise RunDirectoryError(f"{self.path} is in use by another process") from None
        self._lock = lock

    def _set_aside_after(self, update: int) -> None:
        lines = self.metrics_path.read_text("utf-8").splitlines() if self.metrics_path.exists() else []
        keep: list[str] = []
        later: list[str] = []
        for line in lines:
            (keep if _update_of(line) <= update else later).append(line)
        stale = [
            file
            for folder in ("trajectories", "evaluations")
            for file in (self.path / folder).glob("update-*.jsonl")
            if _number(file) > update
        ]
        checkpoints = read_checkpoints(self.path)
        if not later and not stale and all(checkpoint.update <= update for checkpoint in checkpoints):
            return
        aside = self.path / "superseded"
        number = 1
        while (aside / str(number)).exists():
            number += 1
        aside = aside / str(number)
        aside.mkdir(parents=True)
        _write_atomically(aside / "metrics.jsonl", "".join(line + "\n" for line in later))
        for file in stale:
            target = aside / file.parent.name / file.name
            target.parent.mkdir(exist_ok=True)
            shutil.move(file, target)
        _write_checkpoints(aside, [c for c in checkpoints if c.update > update])
        _write_checkpoints(self.path, [c for c in checkpoints if c.update <= update])
        _write_atomically(self.metrics_path, "".join(line + "\n" for line in keep))


def find_state(parent: Path, state: str) -> tuple[Path, Checkpoint] | None:
    """The run under `parent` that saved `state`, superseded saves included."""
    for listing in sorted(parent.glob("*/checkpoints.json")) + sorted(parent.glob("*/superseded/*/checkpoints.json")):
        for checkpoint in read_checkpoints(listing.parent):
            if checkpoint.state == state:
                run = listing.parent if listing.parent.parent == parent else listing.parent.parent.parent
                return run, checkpoint
    return None


def read_checkpoints(path: Path) -> list[Checkpoint]:
    """Every save recorded in a run's folder, in the order they were made."""
    listing = path / "checkpoints.json"
    if not listing.exists():
        return []
    try:
        return [Checkpoint(**entry) for entry in json.loads(listing.read_text("utf-8"))]
    except (ValueError, TypeError) as error:
        raise RunDirectoryError(f"{listing} is damaged: {error}") from error


def _write_checkpoints(path: Path, checkpoints: Iterable[Checkpoint]) -> None:
    entries = [{"name": c.name, "update": c.update, "state": c.state, "sampler": c.sampler} for c in checkpoints]
    _write_atomically(path / "checkpoints.json", json.dumps(entries, indent=2) + "\n")


def _write_atomically(target: Path, text: str) -> None:
    partial = target.with_name(target.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(target)


def _update_of(line: str) -> int:
    try:
        return int(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return 1 << 60  # a torn last line belongs to an update that never finished


def _number(file: Path) -> int:
    return int(file.stem.removeprefix("update-"))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
