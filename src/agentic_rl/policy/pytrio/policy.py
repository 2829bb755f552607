"""`Policy` over a PyTRIO training client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentic_rl.errors import BackendError, ConfigError
from agentic_rl.policy.protocol import AdamConfig, Datum, FloatArray, LossConfig, SavedPaths
from agentic_rl.policy.pytrio import service as pytrio_service
from agentic_rl.policy.pytrio.failures import repeated
from agentic_rl.policy.pytrio.metrics import update_metrics
from agentic_rl.policy.pytrio.reduction import (
    PROBE_TOKENS,
    ServiceReduction,
    probe_datums,
    recognise,
    scaled_advantages,
)
from agentic_rl.policy.pytrio.sampler import PytrioSampler
from agentic_rl.policy.pytrio.service import Limits, Service
from agentic_rl.policy.pytrio.usage import Usage

logger = logging.getLogger(__name__)

IGNORED = -100


def open_pytrio_policy(
    base_model: str,
    *,
    run_dir: Path,
    lora_rank: int = 32,
    seed: int = 0,
    train_unembed: bool = False,
    resume_from: str | None = None,
    loss_reduction: str = "auto",
    probe: bool = True,
    sample_timeout_s: float | None = None,
    max_trajectory_tokens: int | None = None,
    group_size: int | None = None,
    telemetry: bool = False,
    max_in_flight: int = 64,
    retry_window_s: float = 180.0,
) -> PytrioPolicy:
    """Log in, ask what the service takes, and open a LoRA training run, fresh or from `trio://RUN/training_state/NAME`.

    Nothing is bought here; the service loads the model at the first snapshot or update.

    Parameters
    ----------
    loss_reduction
        How the service reduces losses (see `ServiceReduction`); `auto` finds out with a probe at the first update.
    probe
        Whether that probe may be sent. Without it `auto` means `sum`, the convention of the loss names.
    sample_timeout_s
        After how long a sample without an answer is given up; None waits as long as the SDK does (an hour).
    max_trajectory_tokens, group_size
        What the run will ask for, to be compared with the limits of the service.

    Raises
    ------
    BackendError
        No login, no service, or no such checkpoint.
    ConfigError
        The service does not offer the model, or takes less than is asked for.
    """
    pytrio_service.check_rank(lora_rank)
    if loss_reduction != "auto" and loss_reduction not in set(ServiceReduction):
        known = ", ".join(("auto", *ServiceReduction))
        raise ConfigError(f"--service-reduction {loss_reduction!r} is unknown", hint=f"Choose from {known}.")
    service = Service.connect(telemetry=telemetry, max_in_flight=max_in_flight, retry_window_s=retry_window_s)
    limits = service.limits(base_model, training=True)
    asked = {"max_trajectory_tokens": max_trajectory_tokens, "group_size": group_size}
    pytrio_service.check_limits(limits, base_model, asked)
    create = service.client
    if resume_from is None:
        client = service.call(
            lambda: create.create_lora_training_client(
                base_model, rank=lora_rank, seed=seed, train_unembed=train_unembed
            ),
            "opening a training run",
        )
    else:
        client = service.call(
            lambda: create.create_training_client_from_state_with_optimizer(resume_from), f"resuming from {resume_from}"
        )
        _check_same_lora(client.lora, lora_rank, train_unembed, resume_from)
    tokenizer = pytrio_service.load_tokenizer(client, base_model)
    reduction = ServiceReduction(loss_reduction) if loss_reduction != "auto" else None
    if reduction is None and not probe:
        reduction = ServiceReduction.SUM
    usage = Usage(run_dir / "usage.json")
    return PytrioPolicy(service, client, limits, tokenizer, usage, reduction, sample_timeout_s)


class PytrioPolicy:
    """A LoRA that is trained behind the service."""

    def __init__(
        self,
        service: Service,
        client: Any,
        limits: Limits,
        tokenizer: Any,
        usage: Usage,
        reduction: ServiceReduction | None,
        sample_timeout_s: float | None,
    ) -> None:
        self._service = service
        self._client = client
        self._limits = limits
        self._tokenizer = tokenizer
        self._usage = usage
        self._reduction = reduction
        self._sample_timeout_s = sample_timeout_s
        self._probing = asyncio.Lock()
        self._steps: float | None = None

    @property
    def tokenizer(self) -> Any:
        return self._tokenizer

    @property
    def rescoring_is_free(self) -> bool:
        """Scoring is paid for by the token."""
        return False

    @property
    def max_sequence_tokens(self) -> int | None:
        return self._limits.sequence_tokens

    @property
    def run_id(self) -> str:
        """The training run's name at the service."""
        return pytrio_service.run_id(self._client)

    @property
    def loss_reduction(self) -> ServiceReduction | None:
        """How the service reduces losses; None until the probe has told."""
        return self._reduction

    def usage(self) -> dict[str, int]:
        """Tokens used so far, by kind."""
        return dict(self._usage.totals())

    async def snapshot(self) -> PytrioSampler:
        """The weights as they are now. The service keeps them for some hours and then forgets them."""
        # The probe goes first: a service that cannot be trained right should cost no rollout.
        await self._find_reduction()
        client = await repeated(self._client.save_weights_and_get_sampling_client_async, "taking a snapshot")
        return PytrioSampler(
            self._service, client, self._limits, self._usage, self._sample_timeout_s, tokenizer=self._tokenizer
        )

    async def update(self, datums: Sequence[Datum], loss: LossConfig, adam: AdamConfig) -> Mapping[str, float]:
        """One forward-backward and, once that has succeeded, one optimizer step."""
        self._check(datums)
        reduction = await self._find_reduction()
        advantages = scaled_advantages(datums, loss.reduction, reduction)
        config = {"clip_low_threshold": loss.clip_low, "clip_high_threshold": loss.clip_high}
        sent = await asyncio.to_thread(self._sent, datums, advantages)
        doing = f"forward and backward over {len(datums)} trajectories"
        output = await repeated(lambda: self._forward(self._client.forward_backward_async, sent, config), doing)
        self._usage.add("train", sum(len(datum.tokens) for datum in datums))
        metrics = update_metrics(datums, _logprobs(output, datums), loss)
        metrics["trainer/service_loss_sum"] = float(output.metrics.get("loss_sum", float("nan")))
        params = self._service.sdk.AdamParams(
            learning_rate=adam.learning_rate,
            beta1=adam.beta1,
            beta2=adam.beta2,
            eps=adam.eps,
            weight_decay=adam.weight_decay,
            grad_clip_norm=adam.grad_clip_norm,
        )
        step = await repeated(lambda: self._step(params), "the optimizer step")
        metrics |= {f"optimizer/{name}": float(value) for name, value in step.metrics.items()}
        self._check_steps(step.metrics.get("step"))
        return metrics | self._usage.since_last()

    async def save(self, name: str) -> SavedPaths:
        """Save the state, to go on training, and the weights, to sample from."""

        async def state() -> Any:
            return await (await self._client.save_state_async(f"{name}-state", overwrite=True))

        async def weights() -> Any:
            return await (await self._client.save_weights_for_sampler_async(f"{name}-weights"))

        saved_state = await repeated(state, f"saving the state {name!r}")
        saved_weights = await repeated(weights, f"saving the sampler weights {name!r}")
        self._usage.write()
        return SavedPaths(state=str(saved_state.path), sampler=str(saved_weights.path))

    async def aclose(self) -> None:
        """Let go of the run. Its session ends with the last reference, so that nothing is left open at exit."""
        self._usage.write()
        client, self._client = self._client, None
        del client

    async def _find_reduction(self) -> ServiceReduction:
        """Probe once: no gradient, no step."""
        async with self._probing:
            if self._reduction is None:
                tokens = len(self._tokenizer)
                datums = probe_datums(lambda i: (31 + 17 * i) % min(tokens, 256))
                sent = self._sent(datums, [datum.advantages for datum in datums])
                doing = "probing how losses are reduced"
                output = await repeated(lambda: self._forward(self._client.forward_async, sent, None), doing)
                self._usage.add("train", PROBE_TOKENS)
                logprobs = _logprobs(output, datums)
                if logprobs is None:
                    raise BackendError("PyTRIO returns no log-probs", hint="State --service-reduction and --no-probe.")
                self._reduction = recognise(float(output.metrics["loss_sum"]), logprobs, datums)
                logger.info("PyTRIO reduces losses by %s (probe of %d tokens)", self._reduction, PROBE_TOKENS)
            return self._reduction

    async def _forward(self, call: Any, sent: list[Any], config: dict[str, float] | None) -> Any:
        future = await call(sent, "ppo", config)
        return await future

    async def _step(self, params: Any) -> Any:
        future = await self._client.optim_step_async(params)
        return await future

    def _sent(self, datums: Sequence[Datum], advantages: Sequence[FloatArray]) -> list[Any]:
        """Our datums as the SDK's. A target that was not sampled is ignored by the service, not just weightless."""
        sdk = self._service.sdk
        return [
            sdk.Datum(
                model_input=sdk.ModelInput.from_ints(datum.tokens.tolist()),
                loss_fn_inputs={
                    "target_tokens": np.where(datum.sampled, datum.targets, IGNORED).tolist(),
                    "logprobs": datum.old_logprobs.tolist(),
                    "advantages": scaled.tolist(),
                },
            )
            for datum, scaled in zip(datums, advantages, strict=True)
        ]

    def _check(self, datums: Sequence[Datum]) -> None:
        if not datums:
            raise BackendError("an update needs at least one trajectory")
        longest = max(len(datum.tokens) for datum in datums)
        if self._limits.training_tokens is not None and longest > self._limits.training_tokens:
            raise BackendError(
                f"a trajectory of {longest} tokens is more than PyTRIO trains on ({self._limits.training_tokens})",
                hint="Lower --max-trajectory-tokens.",
            )

    def _check_steps(self, step: float | None) -> None:
        """Where the service counts its steps, a step done twice or not at all shows here."""
        if step is not None and self._steps is not None and step != self._steps + 1:
            raise BackendError(
                f"PyTRIO's optimizer went from step {self._steps:g} to {step:g} in one update",
                hint="Resume from the last saved state.",
            )
        self._steps = step


def _logprobs(output: Any, datums: Sequence[Datum]) -> list[FloatArray] | None:
    """The log-probabilities of the targets, if the service returns them."""
    found = []
    for outputs, datum in zip(output.loss_fn_outputs, datums, strict=True):
        tensor = outputs.get("logprobs")
        if tensor is None or len(tensor.data) != len(datum.targets):
            return None
        found.append(np.asarray(tensor.data, dtype=np.float64))
    return found


def _check_same_lora(lora: Any, rank: int, train_unembed: bool, source: str) -> None:
    if lora.rank != rank or lora.train_unembed != train_unembed:
        theirs = f"rank {lora.rank}, train_unembed {lora.train_unembed}"
        raise ConfigError(
            f"{source} was trained with {theirs}, not with rank {rank}, train_unembed {train_unembed}",
            hint=f"Say --lora-rank {lora.rank}.",
        )
