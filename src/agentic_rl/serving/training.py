"""What the events of a training run do. All of it runs on the engine's one thread."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np

from agentic_rl.policy.protocol import AdamConfig
from agentic_rl.serving import wire
from agentic_rl.serving.engine import Engine, Learner, TrainingItem
from agentic_rl.serving.events import Event, Outcome, Usage
from agentic_rl.serving.identity import new_id, now, stamp
from agentic_rl.serving.losses import WireLoss
from agentic_rl.serving.store import CheckpointKind, CheckpointRecord, Lora, RunRecord, Store
from agentic_rl.serving.wire import OperationError, WireError

IGNORED = -100


@dataclass(slots=True)
class _Live:
    """A run whose adapter is in memory."""

    learner: Learner
    lora: Lora
    last_used: float = field(default_factory=time.monotonic)


class TrainingRuns:
    """The live training runs of the server."""

    def __init__(
        self, engine: Engine, store: Store, resolve_model: Callable[[str], None], context_length: int | None
    ) -> None:
        self._engine = engine
        self._store = store
        self._resolve_model = resolve_model
        self._context_length = context_length
        self._live: dict[str, _Live] = {}
        self._operations: dict[str, Callable[[RunRecord, Mapping[str, Any]], Outcome]] = {
            "trainer.init_run": self._init,
            "trainer.forward": lambda run, payload: self._forward(run, payload, backward=False),
            "trainer.forward_backward": lambda run, payload: self._forward(run, payload, backward=True),
            "trainer.optimize_step": self._optimize,
            "trainer.save_state": lambda run, payload: self._save(run, payload, "training_state"),
            "trainer.save_weights": lambda run, payload: self._save(run, payload, "sampler_weights"),
            "trainer.end_run": self._end,
        }

    @property
    def types(self) -> frozenset[str]:
        return frozenset(self._operations)

    def execute(self, event: Event) -> Outcome:
        """Do what an event asks; a payload that makes no sense fails the event, not the run."""
        try:
            return self._operations[event.type](self._store.runs[event.run], event.payload)
        except WireError as error:
            raise OperationError(error.code, error.message) from None

    def touch(self, run: str) -> None:
        """A heartbeat: somebody still holds this run."""
        if live := self._live.get(run):
            live.last_used = time.monotonic()

    def idle(self, seconds: float) -> list[str]:
        """The live runs that nobody has touched for so long."""
        return [run for run, live in self._live.items() if time.monotonic() - live.last_used > seconds]

    def park(self, run: str) -> None:
        """Put a run on disk until its next event. One in the middle of a step stays: its gradient cannot be saved."""
        live = self._live.get(run)
        if live is None or live.learner.has_gradient():
            return
        place = self._store.parked(run)
        beside = place.with_name(".parked")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        live.learner.save(beside, optimizer=True)
        shutil.rmtree(place, ignore_errors=True)
        beside.rename(place)
        del self._live[run]

    def park_all(self) -> None:
        for run in list(self._live):
            self.park(run)

    def end(self, run: str) -> None:
        """Forget a run that its owner has closed; its checkpoints stay."""
        self._live.pop(run, None)
        shutil.rmtree(self._store.parked(run), ignore_errors=True)

    def _of(self, run: RunRecord) -> _Live:
        live = self._live.get(run.cuid)
        if live is None:
            live = self._unpark(run)
        live.last_used = time.monotonic()
        return live

    def _unpark(self, run: RunRecord) -> _Live:
        place = self._store.parked(run.cuid)
        if not place.exists():
            saved = [
                c.uri for c in self._store.checkpoints.values() if c.run == run.cuid and c.kind == "training_state"
            ]
            rest = f"resume from {saved[-1]}" if saved else "it had saved no state"
            raise OperationError("run_lost", f"the weights of {run.cuid} were lost when the server stopped; {rest}")
        learner = self._engine.learner(run.lora, source=place, optimizer=True)
        live = self._live[run.cuid] = _Live(learner, run.lora)
        # From here on the memory is the truth: after a crash an older copy must not come back unasked.
        shutil.rmtree(place)
        return live

    def _init(self, run: RunRecord, payload: Mapping[str, Any]) -> Outcome:
        self._resolve_model(wire.text(payload, "base_model"))
        config = wire.mapping(payload, "lora_config")
        lora = Lora(
            rank=wire.integer(config, "rank", least=1, most=1024),
            seed=wire.optional_integer(config, "seed"),
            train_mlp=wire.flag(config, "train_mlp"),
            train_attn=wire.flag(config, "train_attn"),
            train_unembed=wire.flag(config, "train_unembed"),
        )
        if not (lora.train_mlp or lora.train_attn or lora.train_unembed):
            raise OperationError("invalid_lora_config", "nothing to train: all three train_ flags are off")
        folder = None
        if uri := payload.get("checkpoint_uri"):
            checkpoint = self.usable(uri, self._engine, self._store)
            if checkpoint.kind != "training_state" and wire.flag(payload, "load_optimizer", False):
                raise OperationError("checkpoint_invalid_type", f"{uri} holds no optimizer state")
            theirs = checkpoint.lora
            if (theirs.rank, theirs.train_mlp, theirs.train_attn, theirs.train_unembed) != (
                lora.rank,
                lora.train_mlp,
                lora.train_attn,
                lora.train_unembed,
            ):
                raise OperationError("checkpoint_config_mismatch", f"{uri} was saved with another rank or other flags")
            folder = self._store.folder(checkpoint)
        self.end(run.cuid)
        optimizer = wire.flag(payload, "load_optimizer", False)
        learner = self._engine.learner(lora, source=folder, optimizer=optimizer)
        self._live[run.cuid] = _Live(learner, lora)
        return Outcome()

    @staticmethod
    def usable(uri: Any, engine: Engine, store: Store) -> CheckpointRecord:
        """The checkpoint at an address, if it belongs to the model that is served."""
        if not isinstance(uri, str):
            raise OperationError("checkpoint_invalid_uri", "the checkpoint's address must be a string")
        checkpoint = store.find(uri)
        if checkpoint.model != engine.fingerprint:
            raise OperationError("checkpoint_model_mismatch", f"{uri} belongs to another base model")
        return checkpoint

    def _forward(self, run: RunRecord, payload: Mapping[str, Any], *, backward: bool) -> Outcome:
        live = self._of(run)
        described = wire.mapping(payload, "loss")
        loss = WireLoss.parse(wire.text(described, "type"), wire.mapping(described, "config", {}))
        shift = wire.flag(payload, "auto_shift", False)
        data = wire.sequence(payload, "data")
        if not data:
            raise OperationError("empty_training_data", "there is no datum")
        items = [self._item(datum, loss, shift=shift, index=i) for i, datum in enumerate(data)]
        result = live.learner.forward(items, loss, backward=backward)
        counted = sum(int(np.count_nonzero(item.weights)) for item in items)
        read = sum(len(item.tokens) for item in items)
        outputs = [
            {"logprobs": _tensor(_placed(logprobs, item.active, shift))}
            for logprobs, item in zip(result.logprobs, items, strict=True)
        ]
        metrics = {
            "loss_sum": result.loss_sum,
            "loss_mean": result.loss_sum / counted if counted else 0.0,
            "token_count": counted,
        }
        return Outcome(
            {"loss_fn_outputs": outputs, "metrics": metrics},
            Usage(input_tokens=read, train_tokens=read if backward else 0),
        )

    def _item(self, datum: Any, loss: WireLoss, *, shift: bool, index: int) -> TrainingItem:
        if not isinstance(datum, dict):
            raise wire.malformed("a datum must be a map")
        tokens = np.asarray(wire.chunk_tokens(datum, "model_input", vocabulary=self._engine.vocabulary), dtype=np.int64)
        n = len(tokens)
        least, most = 2 if shift else 1, self._context_length
        if n < least or (most is not None and n > most):
            reach = f"{least}…{most}" if most else f"{least} or more"
            raise OperationError("invalid_sequence_length", f"datum {index} has {n} tokens; {reach} are taken")
        targets = np.asarray(wire.integers(datum, "target_ids"), dtype=np.int64)
        arrays: dict[str, Any] = {}
        for name in loss.inputs:
            default = [1.0] * n if name == "weights" else wire.MISSING
            arrays[name] = np.asarray(wire.numbers(datum, name, default), dtype=np.float64)
        if {len(targets), *(len(a) for a in arrays.values())} != {n}:
            raise OperationError("shape_mismatch", f"datum {index}: targets and inputs must have {n} entries each")
        active = targets != IGNORED
        if np.any(active & ((targets < 0) | (targets >= self._engine.vocabulary))):
            raise OperationError(
                "token_out_of_range", f"datum {index}: target ids lie in 0…{self._engine.vocabulary - 1}"
            )
        if shift:  # label i is predicted from the inputs before it; the first one has none
            tokens, targets, active = tokens[:-1], targets[1:], active[1:]
            arrays = {name: array[1:] for name, array in arrays.items()}
        zeros = np.zeros(len(tokens))
        return TrainingItem(
            tokens=tokens,
            targets=np.where(active, targets, 0),
            active=active,
            weights=np.where(active, arrays.get("weights", np.ones(len(tokens))), 0.0),
            old_logprobs=np.where(active, arrays.get("logprobs", zeros), 0.0),
            advantages=np.where(active, arrays.get("advantages", zeros), 0.0),
        )

    def _optimize(self, run: RunRecord, payload: Mapping[str, Any]) -> Outcome:
        params = wire.mapping(payload, "adam_params")
        adam = AdamConfig(
            learning_rate=wire.number(params, "learning_rate", least=0.0),
            beta1=wire.number(params, "beta1", 0.9, least=0.0),
            beta2=wire.number(params, "beta2", 0.95, least=0.0),
            eps=wire.number(params, "eps", 1e-12, least=0.0),
            weight_decay=wire.number(params, "weight_decay", 0.0, least=0.0),
            grad_clip_norm=wire.number(params, "grad_clip_norm", 0.0, least=0.0),
        )
        if adam.beta1 >= 1 or adam.beta2 >= 1:
            raise OperationError("invalid_adam_params", "beta1 and beta2 must be below 1")
        live = self._of(run)
        metrics = live.learner.step(adam)
        return Outcome({"metrics": {name: float(value) for name, value in metrics.items()}})

    def _save(self, run: RunRecord, payload: Mapping[str, Any], kind: CheckpointKind) -> Outcome:
        live = self._of(run)
        ttl = wire.optional_integer(payload, "ttl_seconds", least=1)
        temporary = wire.text(payload, "visibility", "WORKSPACE") == "TEMPORARY"
        moment = now()
        record = CheckpointRecord(
            cuid=new_id("ckpt"),
            run=run.cuid,
            kind=kind,
            name=wire.text(payload, "name"),
            temporary=temporary,
            model=self._engine.fingerprint,
            lora=live.lora,
            step=live.learner.steps,
            size_bytes=0,
            created_at=stamp(moment),
            expires_at=None if ttl is None else stamp(moment + timedelta(seconds=ttl)),
        )
        record = self._store.write_checkpoint(
            record,
            lambda folder: live.learner.save(folder, optimizer=kind == "training_state"),
            overwrite=wire.flag(payload, "overwrite", False),
        )
        checkpoint = {
            "uri": record.uri,
            "size_bytes": record.size_bytes,
            "model_id": str(self._engine.folder),
            "checkpoint_cuid": record.cuid,
        }
        return Outcome({"checkpoint": checkpoint})

    def _end(self, run: RunRecord, payload: Mapping[str, Any]) -> Outcome:
        self.end(run.cuid)
        return Outcome()


def _placed(logprobs: Any, active: Any, shift: bool) -> Any:
    """Log-probs where the client expects them: 0 where the target is ignored, one place later under `auto_shift`."""
    shown = np.where(active, logprobs, 0.0)
    return np.concatenate([[0.0], shown]) if shift else shown


def _tensor(values: Sequence[float]) -> dict[str, Any]:
    data = np.ascontiguousarray(values, dtype="<f4")
    return {"dtype": "<f4", "shape": [len(data)], "encoding": "raw_le", "data": data.tobytes()}
