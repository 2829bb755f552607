"""What all routes share: the engine, the state on disk, the live runs and how they are described to clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from agentic_rl.serving.engine import Engine
from agentic_rl.serving.events import EventQueue
from agentic_rl.serving.faults import Faults
from agentic_rl.serving.identity import Tokens, stamp
from agentic_rl.serving.sampling import SamplingRuns
from agentic_rl.serving.settings import ServerSettings
from agentic_rl.serving.store import CheckpointRecord, RunRecord, SamplingRunRecord, Store
from agentic_rl.serving.training import TrainingRuns
from agentic_rl.serving.wire import OperationError

logger = logging.getLogger(__name__)

TIDY_SECONDS = 20.0


class Context:
    """One server's insides."""

    def __init__(self, engine: Engine, settings: ServerSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.store = Store(settings.state_dir)
        self.tokens = Tokens(self.store.secret)
        self.faults = Faults(settings.faults)
        lengths = [n for n in (engine.context_length, settings.max_sequence_tokens) if n is not None]
        self.context_length = min(lengths, default=None)
        self.training = TrainingRuns(engine, self.store, self.resolve, self.context_length)
        self.sampling = SamplingRuns(
            engine, self.store, context_length=self.context_length, loaded=settings.loaded_samplers
        )
        self.events = EventQueue(lambda event: engine.run(lambda: self.training.execute(event)), self.faults)
        self._ending: set[asyncio.Task[None]] = set()
        self.stopping = False

    @property
    def model_id(self) -> str:
        """The folder of the tokenizer: what a client on this machine can load without a hub."""
        return str(self.engine.folder)

    @property
    def alias(self) -> str:
        return self.settings.served_names[0]

    def resolve(self, name: str) -> None:
        """Accept the names that the loaded model goes by."""
        if name not in (*self.settings.served_names, self.model_id):
            served = ", ".join(self.settings.served_names)
            raise OperationError("model_not_found", f"model {name!r} is not served here; served: {served}")

    def limits(self, *, training: bool) -> dict[str, int | None]:
        return {
            "max_batch_size": self.settings.max_batch_size if training else None,
            "max_tokens_per_request": self.settings.max_tokens_per_request if training else None,
            "max_seq_len": self.context_length,
        }

    def access(self, run: str, endpoint: str) -> dict[str, Any]:
        """Where a run's actor is, and a token for it."""
        token, expires = self.tokens.issue(run)
        return {
            "actor": {
                "actor_cuid": "actor_local",
                "endpoint": endpoint,
                "connect_mode": "direct",
                "tls_enabled": False,
                "tls_cert_pem": None,
                "tls_not_after": None,
            },
            "actor_jwt": {"token": token, "expires_at": stamp(expires)},
        }

    def created(self, run: RunRecord | SamplingRunRecord, endpoint: str) -> dict[str, Any]:
        """The answer to the creation of a run of either kind."""
        training = isinstance(run, RunRecord)
        return {
            "training_run_cuid" if training else "sampling_run_cuid": run.cuid,
            "service_session_cuid": run.session,
            "workspace_cuid": "local",
            "status": "RUNNING",
            "run_index": run.index if isinstance(run, RunRecord) else 1,
            "model_spec_cuid": f"model_{self.engine.fingerprint[:12]}",
            "model_alias": self.alias,
            "model_id": self.model_id,
            "trainer" if training else "sampler": self.limits(training=training),
            "created_at": run.created_at,
            **self.access(run.cuid, endpoint),
        }

    def end_session(self, session: str) -> None:
        """Release what the runs of a closed session hold, after what they still do."""

        def end() -> None:
            for run in [r.cuid for r in self.store.runs.values() if r.session == session]:
                self.training.end(run)

        task = asyncio.create_task(self.engine.run(end))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def tidy(self) -> None:
        """From time to time: let old answers, idle runs and expired checkpoints go."""
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            try:
                await self.tidy_once()
            except Exception:
                logger.exception("tidying failed")

    async def tidy_once(self) -> None:
        self.events.forget_old()
        self.sampling.forget_old()
        await self.sampling.unload_idle(self.settings.idle_seconds)
        await self.engine.run(self._park_idle)
        await self.engine.run(self.evict)

    def _park_idle(self) -> None:
        for run in self.training.idle(self.settings.idle_seconds):
            if not self.events.busy(run):
                self.training.park(run)

    def evict(self) -> None:
        """Delete expired checkpoints, temporary ones beyond the number that is kept, and runs that sampled them."""
        temporary: dict[str, list[CheckpointRecord]] = {}
        records = list(self.store.checkpoints.values())
        for record in records:
            if record.expired():
                self.store.delete_checkpoint(record)
            elif record.temporary:
                temporary.setdefault(record.run, []).append(record)
        last_used = self._last_uses(records)
        for found in temporary.values():
            found.sort(key=lambda record: last_used[record.uri])
            for record in found[: -self.settings.temporary_checkpoints]:
                self.store.delete_checkpoint(record)
        for run in list(self.store.sampling_runs.values()):
            if run.source and run.source not in self.store.checkpoints:
                self.store.drop_sampling_run(run.cuid)

    def _last_uses(self, records: Iterable[CheckpointRecord]) -> dict[str, datetime]:
        """When each checkpoint was saved, opened for sampling or sampled from, whichever came last.

        What has just been saved is about to be opened: it must not look as if nobody had ever wanted it.
        """
        uses = {record.uri: datetime.fromisoformat(record.created_at) for record in records}
        for run in list(self.store.sampling_runs.values()):
            if run.source in uses:
                uses[run.source] = max(uses[run.source], datetime.fromisoformat(run.created_at))
        for uri, moment in self.sampling.last_uses().items():
            if uri in uses:
                uses[uri] = max(uses[uri], moment)
        return uses

    def begin_stop(self) -> None:
        """Let nobody wait any longer: samples under way are refused for now, polls are answered as things stand."""
        self.stopping = True
        self.events.release()
        self.sampling.cancel_all()

    async def aclose(self) -> None:
        """Finish what runs and put the live runs on disk, so that a restart finds them."""
        await self.events.aclose()
        await self.sampling.aclose()
        await self.engine.run(self.training.park_all)
        self.engine.close()

    def load_from(self, run: RunRecord, source: str, restore_optimizer: bool) -> RunRecord:
        """Note that a run starts from a checkpoint."""
        return self.store.put_run(replace(run, source=source, restore_optimizer=restore_optimizer))


def counted(items: Sequence[Mapping[str, Any]], offset: int, limit: int, name: str) -> dict[str, Any]:
    """One page of a list."""
    page = items[offset : offset + limit]
    return {name: page, "cursor": {"offset": offset, "limit": limit, "total": len(items)}}
