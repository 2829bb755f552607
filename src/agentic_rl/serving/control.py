"""The control routes: login, catalogue, sessions, runs and checkpoints. JSON, with the API key."""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from agentic_rl.serving import wire
from agentic_rl.serving.context import Context, counted
from agentic_rl.serving.http import answering, body_of
from agentic_rl.serving.identity import now, stamp
from agentic_rl.serving.store import CheckpointRecord, Lora, RunRecord, SamplingRunRecord, SessionRecord
from agentic_rl.serving.training import TrainingRuns
from agentic_rl.serving.wire import OperationError, WireError

STARTED = "2026-01-01T00:00:00Z"
PREFIX = "/api/openapi/v1"


class Control:
    """The handlers; `routes` is what the application mounts."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    @property
    def routes(self) -> list[Route]:
        session, run, sampler = "/service-sessions/{session}", "/training-runs/{run}", "/sampling-runs/{run}"
        table: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            ("GET", f"{PREFIX}/api-key/verify", self.verify),
            ("GET", "/api/sdk/bootstrap", self.bootstrap),
            ("GET", "/api/models", self.models),
            ("POST", "/api/telemetry/event", self.telemetry),
            ("POST", f"{PREFIX}/service-sessions", self.open_session),
            ("GET", f"{PREFIX}/service-sessions", self.list_sessions),
            ("GET", f"{PREFIX}{session}", self.show_session),
            ("POST", f"{PREFIX}{session}/close", self.close_session),
            ("POST", f"{PREFIX}{session}/renew", self.renew_session),
            ("POST", f"{PREFIX}{session}/training-runs", self.create_run),
            ("PATCH", f"{PREFIX}{session}/training-runs/{{run}}", self.load_into_run),
            ("POST", f"{PREFIX}{session}/sampling-runs", self.create_sampling_run),
            ("GET", f"{PREFIX}/training-runs/by-checkpoint-uri", self.run_of_checkpoint),
            ("GET", f"{PREFIX}/training-runs", self.list_runs),
            ("GET", f"{PREFIX}{run}", self.show_run),
            ("POST", f"{PREFIX}{run}/renew", self.renew_run),
            ("GET", f"{PREFIX}{run}/checkpoints", self.list_run_checkpoints),
            ("GET", f"{PREFIX}{sampler}", self.show_sampling_run),
            ("POST", f"{PREFIX}{sampler}/renew", self.renew_sampling_run),
            ("GET", f"{PREFIX}/checkpoints", self.list_checkpoints),
            ("GET", f"{PREFIX}/checkpoints/{{checkpoint}}/download-url", self.download_url),
            ("DELETE", f"{PREFIX}/checkpoints/{{checkpoint}}", self.delete_checkpoint),
            ("GET", "/files/{checkpoint}/{token}", self.download),
        ]
        return [Route(path, answering(handler), methods=[method]) for method, path, handler in table]

    async def verify(self, request: Request) -> Response:
        return JSONResponse(
            {
                "api_key_tid": "local",
                "api_key_name": "local",
                "user_cuid": "local",
                "username": "local",
                "display_name": None,
                "workspace_cuid": "local",
                "workspace_name": "local",
                "workspace_type": "PERSONAL",
                "expires_at": None,
            }
        )

    async def bootstrap(self, request: Request) -> Response:
        version = request.query_params.get("sdk_version", "")
        return JSONResponse({"compatibility": {"status": "compatible", "sdk_version": version}, "notices": []})

    async def models(self, request: Request) -> Response:
        context = self._context
        items = [
            {
                "cuid": f"model_{context.engine.fingerprint[:12]}",
                "alias": name,
                "model_id": name,
                "train_available": True,
                "sample_available": True,
                "trainer": context.limits(training=True),
                "sampler": context.limits(training=False),
                "context_length": context.context_length,
                "created_at": STARTED,
                "updated_at": STARTED,
            }
            for name in context.settings.served_names
        ]
        offset, limit = _page(request, 100)
        return JSONResponse(
            {"items": items[offset : offset + limit], "total": len(items), "limit": limit, "offset": offset}
        )

    async def telemetry(self, request: Request) -> Response:
        return Response(status_code=204)  # heard and forgotten

    async def open_session(self, request: Request) -> Response:
        body = wire.decode_json(await body_of(request))
        return JSONResponse(_session(self._store.add_session(wire.text(body, "sdk_version", "", most=64))))

    async def list_sessions(self, request: Request) -> Response:
        found = [_session(record) for record in reversed(self._store.sessions.values())]
        return JSONResponse(counted(found, *_page(request, 20), "service_sessions"))

    async def show_session(self, request: Request) -> Response:
        record = self._session_of(request)
        runs = [run.cuid for run in self._store.runs.values() if run.session == record.cuid]
        sampling = [run.cuid for run in self._store.sampling_runs.values() if run.session == record.cuid]
        return JSONResponse(_session(record) | {"training_run_cuids": runs, "sampling_run_cuids": sampling})

    async def close_session(self, request: Request) -> Response:
        body = wire.decode_json(await body_of(request))
        record = self._store.touch_session(self._session_of(request).cuid, wire.text(body, "status", "ENDED", most=32))
        self._context.end_session(record.cuid)
        return Response(status_code=204)

    async def renew_session(self, request: Request) -> Response:
        return JSONResponse(_session(self._store.touch_session(self._session_of(request).cuid)))

    async def create_run(self, request: Request) -> Response:
        session = self._session_of(request)
        body = wire.decode_json(await body_of(request))
        source = wire.text(body, "source_checkpoint_uri", "")
        if source:
            self._training_checkpoint(source)
        else:
            self._context.resolve(wire.text(body, "base_model"))
        lora = Lora(
            rank=wire.integer(body, "lora_rank", least=1, most=1024),
            seed=wire.optional_integer(body, "seed"),
            train_mlp=wire.flag(body, "train_mlp"),
            train_attn=wire.flag(body, "train_attn"),
            train_unembed=wire.flag(body, "train_unembed"),
        )
        run = self._store.add_run(session.cuid, lora, source, wire.flag(body, "restore_optimizer", False))
        return JSONResponse(self._context.created(run, _endpoint(request)))

    async def load_into_run(self, request: Request) -> Response:
        run = self._run_of(request)
        body = wire.decode_json(await body_of(request))
        source = wire.text(body, "source_checkpoint_uri")
        self._training_checkpoint(source)
        run = self._context.load_from(run, source, wire.flag(body, "restore_optimizer"))
        return JSONResponse(
            {
                "source_checkpoint_uri": run.source,
                "restore_optimizer": run.restore_optimizer,
                "trainer": self._context.limits(training=True),
                **self._context.access(run.cuid, _endpoint(request)),
            }
        )

    async def create_sampling_run(self, request: Request) -> Response:
        session = self._session_of(request)
        body = wire.decode_json(await body_of(request))
        self._context.resolve(wire.text(body, "base_model"))
        source = wire.text(body, "source_checkpoint_uri", "")
        if source:
            TrainingRuns.usable(source, self._context.engine, self._store)
        run = self._store.add_sampling_run(session.cuid, source)
        return JSONResponse(self._context.created(run, _endpoint(request)))

    async def run_of_checkpoint(self, request: Request) -> Response:
        checkpoint = TrainingRuns.usable(
            request.query_params.get("checkpoint_uri", ""), self._context.engine, self._store
        )
        lora = asdict(checkpoint.lora)
        return JSONResponse({"base_model": self._context.model_id, "lora_rank": lora.pop("rank"), **lora})

    async def list_runs(self, request: Request) -> Response:
        found = [self._run(run) for run in reversed(self._store.runs.values())]
        return JSONResponse(counted(found, *_page(request, 20), "training_runs"))

    async def show_run(self, request: Request) -> Response:
        return JSONResponse(self._run(self._run_of(request)))

    async def renew_run(self, request: Request) -> Response:
        run = self._run_of(request)
        return JSONResponse(_renewed("training_run_cuid", run) | self._context.access(run.cuid, _endpoint(request)))

    async def renew_sampling_run(self, request: Request) -> Response:
        run = self._sampling_run_of(request)
        return JSONResponse(_renewed("sampling_run_cuid", run) | self._context.access(run.cuid, _endpoint(request)))

    async def show_sampling_run(self, request: Request) -> Response:
        run = self._sampling_run_of(request)
        return JSONResponse(
            _renewed("sampling_run_cuid", run)
            | {
                "status": "RUNNING",
                "base_model": self._context.alias,
                "model_id": self._context.model_id,
                "alias": self._context.alias,
                "created_at": run.created_at,
                "updated_at": run.created_at,
                "source_checkpoint_uri": run.source or None,
            }
        )

    async def list_run_checkpoints(self, request: Request) -> Response:
        run = self._run_of(request)
        found = [self._checkpoint(c) for c in self._visible() if c.run == run.cuid]
        return JSONResponse(counted(found, *_page(request, 200), "checkpoints"))

    async def list_checkpoints(self, request: Request) -> Response:
        found = [self._checkpoint(c) for c in self._visible()]
        return JSONResponse(counted(found, *_page(request, 100), "checkpoints"))

    async def delete_checkpoint(self, request: Request) -> Response:
        self._store.delete_checkpoint(self._checkpoint_of(request.path_params["checkpoint"]))
        return Response(status_code=204)

    async def download_url(self, request: Request) -> Response:
        record = self._checkpoint_of(request.path_params["checkpoint"])
        token, _ = self._context.tokens.issue(record.cuid)
        return JSONResponse(
            {
                "url": f"{_endpoint(request)}/files/{record.cuid}/{token}",
                "expires_at": stamp(now() + timedelta(hours=12)),
                "source": "actor",
                "checkpoint_status": "LOCAL",
                "tls_cert_pem": None,
                "tls_not_after": None,
            }
        )

    async def download(self, request: Request) -> Response:
        name = request.path_params["checkpoint"]
        if self._context.tokens.run_of(request.path_params["token"]) != name:
            raise WireError(401, "unauthorized", "this address is not valid any more; ask for a new one")
        archive = await asyncio.to_thread(self._archive, self._checkpoint_of(name))
        return FileResponse(archive, media_type="application/x-tar", filename=f"{name}.tar")

    def _archive(self, record: CheckpointRecord) -> Path:
        """A tar of a checkpoint, made once, so that a download can be resumed."""
        archive = self._store.folder(record) / "archive.tar"
        if not archive.exists():
            beside = archive.with_name(".archive.tar")
            with tarfile.open(beside, "w") as tar:
                for path in sorted(archive.parent.iterdir()):
                    if not path.name.startswith(".") and path != archive:
                        tar.add(path, arcname=path.name)
            beside.rename(archive)
        return archive

    def _training_checkpoint(self, uri: str) -> None:
        checkpoint = TrainingRuns.usable(uri, self._context.engine, self._store)
        if checkpoint.kind != "training_state":
            raise OperationError("checkpoint_invalid_type", f"{uri} holds sampler weights; training needs a state")

    def _visible(self) -> list[CheckpointRecord]:
        return [c for c in self._store.checkpoints.values() if not c.temporary and not c.expired()]

    def _session_of(self, request: Request) -> SessionRecord:
        return _found(self._store.sessions, request.path_params["session"], "service_session")

    def _run_of(self, request: Request) -> RunRecord:
        return _found(self._store.runs, request.path_params["run"], "training_run")

    def _sampling_run_of(self, request: Request) -> SamplingRunRecord:
        return _found(self._store.sampling_runs, request.path_params["run"], "sampling_run")

    def _checkpoint_of(self, cuid: str) -> CheckpointRecord:
        return _found({c.cuid: c for c in self._store.checkpoints.values()}, cuid, "checkpoint")

    def _run(self, run: RunRecord) -> dict[str, Any]:
        lora = asdict(run.lora)
        flags = {key: value for key, value in lora.items() if key.startswith("train_")}
        shared = flags | {"lora_rank": run.lora.rank, "restore_optimizer": run.restore_optimizer}
        return {
            **_renewed("training_run_cuid", run),
            **shared,
            "base_model": self._context.model_id,
            "status": "RUNNING",
            "run_index": run.index,
            "model_spec_cuid": f"model_{self._context.engine.fingerprint[:12]}",
            "is_lora": True,
            "corrupted": False,
            "training_params": shared | {"seed": run.lora.seed},
            "seed": run.lora.seed,
            "source_checkpoint_uri": run.source or None,
            "created_at": run.created_at,
            "updated_at": run.created_at,
        }

    def _checkpoint(self, record: CheckpointRecord) -> dict[str, Any]:
        run = self._store.runs.get(record.run)
        return {
            "cuid": record.cuid,
            "checkpoint_cuid": record.cuid,
            "training_run_cuid": record.run,
            "name": record.name,
            "checkpoint_type": "TRAINING" if record.kind == "training_state" else "SAMPLER",
            "status": "READY",
            "checkpoint_uri": record.uri,
            "model": self._context.alias,
            "base_model": self._context.model_id,
            "model_spec_cuid": f"model_{record.model[:12]}",
            "task_id": record.run,
            "task_created_at": run.created_at if run else record.created_at,
            "task_status": "RUNNING",
            "path": record.uri,
            "created_at": record.created_at,
            "lora_rank": record.lora.rank,
            "is_uploaded": False,
            "step": record.step,
            "size_bytes": record.size_bytes,
            "expired_at": record.expires_at,
        }


def _found[T](table: dict[str, T], cuid: str, what: str) -> T:
    if (record := table.get(cuid)) is None:
        raise WireError(404, f"{what}_not_found", f"no {what.replace('_', ' ')} {cuid}")
    return record


def _session(record: SessionRecord) -> dict[str, Any]:
    return {
        "service_session_cuid": record.cuid,
        "workspace_cuid": "local",
        "status": record.status,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "sdk_version": record.sdk_version,
    }


def _renewed(name: str, run: RunRecord | SamplingRunRecord) -> dict[str, Any]:
    return {name: run.cuid, "service_session_cuid": run.session, "workspace_cuid": "local"}


def _endpoint(request: Request) -> str:
    """This server, by the name that the client reached it under."""
    return str(request.base_url).rstrip("/")


def _page(request: Request, limit: int) -> tuple[int, int]:
    try:
        offset = int(request.query_params.get("offset", 0))
        limit = int(request.query_params.get("limit", limit))
    except ValueError:
        raise WireError(400, "invalid_query_params", "offset and limit must be integers") from None
    if offset < 0 or not 1 <= limit <= 1000:
        raise WireError(400, "invalid_query_params", "offset must be at least 0 and limit lie in 1…1000")
    return offset, limit
