"""What survives a restart: sessions, runs and checkpoints, each a JSON file under one folder.

    STATE/secret                                      signs the bearer tokens
    STATE/sessions/SESSION.json
    STATE/sampling_runs/RUN.json
    STATE/runs/RUN/run.json
    STATE/runs/RUN/training_state/NAME/               checkpoint.json and what the engine wrote
    STATE/runs/RUN/sampler_weights/NAME/
    STATE/runs/RUN/parked/                            the run itself while nobody uses it

A checkpoint is written beside its place and renamed into it, so that it is there whole or not at all.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from agentic_rl.serving.identity import new_id, now, stamp
from agentic_rl.serving.wire import OperationError

type CheckpointKind = Literal["training_state", "sampler_weights"]

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9_-])?\Z")
_URI = re.compile(
    r"trio://(?P<run>[A-Za-z0-9_-]{1,64})/(?P<kind>training_state|sampler_weights)/(?P<name>[^/]{1,200})\Z"
)


@dataclass(frozen=True, slots=True)
class Lora:
    """The adapter of a training run."""

    rank: int
    seed: int | None
    train_mlp: bool
    train_attn: bool
    train_unembed: bool


@dataclass(frozen=True, slots=True)
class SessionRecord:
    cuid: str
    sdk_version: str
    status: str
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One training run."""

    cuid: str
    session: str
    index: int
    lora: Lora
    source: str
    restore_optimizer: bool
    created_at: str


@dataclass(frozen=True, slots=True)
class SamplingRunRecord:
    cuid: str
    session: str
    source: str
    created_at: str


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One saved adapter. `model` is the fingerprint of the base model that it belongs to."""

    cuid: str
    run: str
    kind: CheckpointKind
    name: str
    temporary: bool
    model: str
    lora: Lora
    step: int
    size_bytes: int
    created_at: str
    expires_at: str | None

    @property
    def uri(self) -> str:
        return f"trio://{self.run}/{self.kind}/{self.name}"

    def expired(self) -> bool:
        return self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now()


class Store:
    """The state folder. Every method may be called from any thread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.RLock()
        for part in ("sessions", "runs", "sampling_runs"):
            (root / part).mkdir(parents=True, exist_ok=True)
        self.secret = bytes.fromhex(remembered(root, "secret", lambda: secrets.token_hex(32)))
        self.sessions = {r.cuid: r for r in _read_all(root / "sessions", "*.json", lambda d: SessionRecord(**d))}
        self.sampling_runs = {
            r.cuid: r for r in _read_all(root / "sampling_runs", "*.json", lambda d: SamplingRunRecord(**d))
        }
        self.runs = {r.cuid: r for r in _read_all(root / "runs", "*/run.json", _run_record)}
        found = _read_all(root / "runs", "*/*/*/checkpoint.json", _checkpoint_record)
        self.checkpoints = {c.uri: c for c in sorted(found, key=lambda c: c.created_at)}

    def add_session(self, sdk_version: str) -> SessionRecord:
        moment = stamp(now())
        return self._put_session(SessionRecord(new_id("ss"), sdk_version, "ACTIVE", moment, moment))

    def touch_session(self, cuid: str, status: str | None = None) -> SessionRecord:
        record = self.sessions[cuid]
        return self._put_session(replace(record, status=status or record.status, updated_at=stamp(now())))

    def _put_session(self, record: SessionRecord) -> SessionRecord:
        with self._lock:
            self.sessions[record.cuid] = record
            _write_json(self.root / "sessions" / f"{record.cuid}.json", asdict(record))
        return record

    def add_run(self, session: str, lora: Lora, source: str, restore_optimizer: bool) -> RunRecord:
        with self._lock:
            index = 1 + sum(run.session == session for run in self.runs.values())
            record = RunRecord(new_id("run"), session, index, lora, source, restore_optimizer, stamp(now()))
            return self.put_run(record)

    def put_run(self, record: RunRecord) -> RunRecord:
        with self._lock:
            self.runs[record.cuid] = record
            _write_json(self.root / "runs" / record.cuid / "run.json", asdict(record))
        return record

    def add_sampling_run(self, session: str, source: str) -> SamplingRunRecord:
        record = SamplingRunRecord(new_id("samp"), session, source, stamp(now()))
        with self._lock:
            self.sampling_runs[record.cuid] = record
            _write_json(self.root / "sampling_runs" / f"{record.cuid}.json", asdict(record))
        return record

    def drop_sampling_run(self, cuid: str) -> None:
        with self._lock:
            self.sampling_runs.pop(cuid, None)
            (self.root / "sampling_runs" / f"{cuid}.json").unlink(missing_ok=True)

    def parked(self, run: str) -> Path:
        return self.root / "runs" / run / "parked"

    def folder(self, checkpoint: CheckpointRecord) -> Path:
        return self.root / "runs" / checkpoint.run / checkpoint.kind / checkpoint.name

    def find(self, uri: str) -> CheckpointRecord:
        """The checkpoint at an address."""
        if not _URI.match(uri):
            shape = "trio://RUN/training_state/NAME or trio://RUN/sampler_weights/NAME"
            raise OperationError("checkpoint_invalid_uri", f"{uri!r} is not {shape}")
        record = self.checkpoints.get(uri)
        if record is None or record.expired():
            raise OperationError("checkpoint_not_found", f"this server has no checkpoint {uri}; it may have expired")
        return record

    def write_checkpoint(
        self,
        record: CheckpointRecord,
        write: Callable[[Path], None],
        *,
        overwrite: bool,
    ) -> CheckpointRecord:
        """Write a checkpoint whole or not at all; `write` fills the folder that it is given."""
        if not _NAME.match(record.name):
            raise OperationError("invalid_checkpoint_name", f"{record.name!r} is not a name for a checkpoint")
        place = self.folder(record)
        if record.uri in self.checkpoints and not overwrite:
            raise OperationError(
                "checkpoint_exists", f"{record.uri} exists already; choose another name or overwrite it"
            )
        beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        beside.mkdir(parents=True)
        try:
            write(beside)
            record = replace(record, size_bytes=sum(f.stat().st_size for f in beside.rglob("*") if f.is_file()))
            _write_json(beside / "checkpoint.json", asdict(record))
            with self._lock:
                if place.exists():
                    old = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
                    place.rename(old)
                    beside.rename(place)
                    shutil.rmtree(old)
                else:
                    beside.rename(place)
                self.checkpoints[record.uri] = record
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        return record

    def delete_checkpoint(self, record: CheckpointRecord) -> None:
        with self._lock:
            self.checkpoints.pop(record.uri, None)
            shutil.rmtree(self.folder(record), ignore_errors=True)


def remembered(root: Path, name: str, make: Callable[[], str]) -> str:
    """A secret kept in a file that only the owner may read, made when it is not there yet."""
    path = root / name
    if not path.exists():
        root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(make())
    return path.read_text().strip()


def _read_all[T](root: Path, pattern: str, build: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    for path in sorted(root.glob(pattern)):
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            continue  # a save that was cut off
        try:
            yield build(json.loads(path.read_text()))
        except (ValueError, TypeError, KeyError):
            continue  # damaged by hand; the rest is still good


def _run_record(data: dict[str, Any]) -> RunRecord:
    return RunRecord(**{**data, "lora": Lora(**data["lora"])})


def _checkpoint_record(data: dict[str, Any]) -> CheckpointRecord:
    return CheckpointRecord(**{**data, "lora": Lora(**data["lora"])})


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    beside.write_text(json.dumps(data, indent=1))
    beside.rename(path)
