"""`Sampler` over a PyTRIO sampling client."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentic_rl.errors import BackendError
from agentic_rl.policy.protocol import Completion, FinishReason, FloatArray, SamplingParams
from agentic_rl.policy.pytrio.failures import repeated
from agentic_rl.policy.pytrio.service import Limits, Service, check_limits, load_tokenizer, run_id
from agentic_rl.policy.pytrio.usage import Usage

logger = logging.getLogger(__name__)

CHANCE_LOG_PROBABILITY = -12.0
"""All completions of a group being the same is reported where its log-probability is below this."""


def open_pytrio_sampler(
    base_model: str,
    model_path: str | None = None,
    *,
    sample_timeout_s: float | None = None,
    max_trajectory_tokens: int | None = None,
    group_size: int | None = None,
    telemetry: bool = False,
    max_in_flight: int = 64,
    retry_window_s: float = 180.0,
) -> PytrioSampler:
    """A sampler of the base model, or of saved weights (`trio://RUN/sampler_weights/NAME`).

    Raises
    ------
    BackendError
        No login, no service, or no such checkpoint.
    ConfigError
        The service does not offer the model, or takes less than is asked for.
    """
    service = Service.connect(telemetry=telemetry, max_in_flight=max_in_flight, retry_window_s=retry_window_s)
    limits = service.limits(base_model, training=False)
    check_limits(limits, base_model, {"max_trajectory_tokens": max_trajectory_tokens, "group_size": group_size})
    what = model_path or base_model
    client = service.call(lambda: service.client.create_sampling_client(base_model, model_path), f"opening {what}")
    return PytrioSampler(service, client, limits, Usage(), sample_timeout_s, name=model_path)


class PytrioSampler:
    """A frozen snapshot behind the service."""

    def __init__(
        self,
        service: Service,
        client: Any,
        limits: Limits,
        usage: Usage,
        sample_timeout_s: float | None,
        *,
        name: str | None = None,
        tokenizer: Any = None,
    ) -> None:
        self._service = service
        self._client = client
        self._limits = limits
        self._usage = usage
        self._timeout = sample_timeout_s
        self._tokenizer = tokenizer
        self._vocabulary = 0
        self._warned = False
        self._id = name or run_id(client)
        self.identical_groups = 0
        """Groups at temperature 1 or more whose completions were all the same."""

    @property
    def id(self) -> str:
        return self._id

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that the service names for the model; loaded once."""
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(self._client, self._id)
        return self._tokenizer

    @property
    def max_sequence_tokens(self) -> int | None:
        return self._limits.sequence_tokens

    def usage(self) -> dict[str, int]:
        """Tokens used so far, by kind."""
        return dict(self._usage.totals())

    async def sample(self, prompt: Sequence[int], n: int, params: SamplingParams) -> list[Completion]:
        """`n` completions of one prompt; several requests where one may not hold them all."""
        self._check_length(len(prompt) + params.max_tokens)
        most = self._limits.sampling_batch or n
        parts = [min(most, n - first) for first in range(0, n, most)]
        # Parts draw from seeds of their own, so that they do not repeat one another.
        asked = [self._sample(prompt, count, params, params.seed + i) for i, count in enumerate(parts)]
        completions = [completion for part in await asyncio.gather(*asked) for completion in part]
        self._report_identical(completions, params)
        return completions

    async def score(self, tokens: Sequence[int]) -> FloatArray:
        """Shape (len(tokens),); entry 0 is 0."""
        self._check_length(len(tokens))
        prompt = self._service.sdk.ModelInput.from_ints([int(token) for token in tokens])
        doing = f"scoring {len(tokens)} tokens"
        answer = await self._in_time(
            repeated(lambda: self._client.compute_logprobs_async(prompt), doing, changes_nothing=True), doing
        )
        self._usage.add("scoring", len(tokens))
        if len(answer) != len(tokens):
            raise BackendError(f"PyTRIO gave {len(answer)} log-probs for {len(tokens)} tokens")
        scores = np.array([0.0, *(math.nan if value is None else float(value) for value in answer[1:])])
        if not np.isfinite(scores).all():
            raise BackendError(f"PyTRIO gave no finite log-prob for {int((~np.isfinite(scores)).sum())} tokens")
        return scores

    async def aclose(self) -> None:
        """The service has no way to close a sampling run; it lets go of it by itself."""
        self._usage.write()

    async def _sample(self, prompt: Sequence[int], n: int, params: SamplingParams, seed: int) -> list[Completion]:
        sdk = self._service.sdk
        arguments: dict[str, Any] = {
            "prompt": sdk.ModelInput.from_ints([int(token) for token in prompt]),
            "num_samples": n,
            "sampling_params": sdk.SamplingParams(
                max_tokens=params.max_tokens,
                temperature=params.temperature,
                top_p=params.top_p,
                seed=seed,
                stop=list(params.stop_token_ids),
            ),
            "return_text": False,
        }
        doing = f"sampling after {len(prompt)} tokens"
        answer = await self._in_time(
            repeated(lambda: self._client.sample_async(**arguments), doing, changes_nothing=True), doing
        )
        self._usage.add("prefill", int(answer.input_tokens or len(prompt)))
        self._usage.add("sample", int(answer.output_tokens or sum(len(s.tokens) for s in answer.sequences)))
        if len(answer.sequences) != n:
            raise BackendError(f"PyTRIO gave {len(answer.sequences)} completions for the {n} that were asked for")
        return [self._checked(sequence, params) for sequence in answer.sequences]

    def _checked(self, sequence: Any, params: SamplingParams) -> Completion:
        """The old log-probs decide the ratio of PPO, so nothing odd gets past here."""
        tokens = tuple(int(token) for token in sequence.tokens)
        logprobs = tuple(float(value) for value in sequence.logprobs)
        if len(tokens) != len(logprobs):
            raise BackendError(f"PyTRIO gave {len(logprobs)} log-probs for {len(tokens)} sampled tokens")
        if not all(math.isfinite(value) and value <= 1e-4 for value in logprobs):
            raise BackendError("PyTRIO gave log-probs of sampled tokens that are not finite or above 0")
        if len(tokens) > params.max_tokens:
            raise BackendError(f"PyTRIO gave {len(tokens)} tokens where at most {params.max_tokens} were asked for")
        self._vocabulary = self._vocabulary or len(self.tokenizer)
        if tokens and max(tokens) >= self._vocabulary:
            raise BackendError(f"PyTRIO sampled the id {max(tokens)}, which its tokenizer does not know")
        ended = bool(tokens) and tokens[-1] in params.stop_token_ids
        length = not ended and sequence.stop_reason in ("length", "max_tokens")
        return Completion(tokens, logprobs, FinishReason.LENGTH if length else FinishReason.STOP)

    def _report_identical(self, completions: Sequence[Completion], params: SamplingParams) -> None:
        if len(completions) < 2 or params.temperature < 1 or len({c.tokens for c in completions}) > 1:
            return
        # A model that is sure of its answer may well give it every time; only what chance forbids is reported.
        if (len(completions) - 1) * sum(completions[0].logprobs) > CHANCE_LOG_PROBABILITY:
            return
        self.identical_groups += 1
        if not self._warned:
            self._warned = True
            logger.warning(
                "all %d completions of one request are the same at temperature %g: the service may ignore seeds",
                len(completions),
                params.temperature,
            )

    def _check_length(self, tokens: int) -> None:
        longest = self.max_sequence_tokens
        if longest is not None and tokens > longest:
            raise BackendError(
                f"{tokens} tokens are more than PyTRIO takes for this model ({longest})",
                hint="Lower --max-trajectory-tokens.",
            )

    async def _in_time[T](self, work: Any, doing: str) -> Any:
        if self._timeout is None:
            return await work
        try:
            async with asyncio.timeout(self._timeout):
                return await work
        except TimeoutError as error:
            raise BackendError(
                f"PyTRIO has not answered for {self._timeout:g} s while {doing}",
                hint="Raise --sample-timeout if the service is merely slow.",
            ) from error
