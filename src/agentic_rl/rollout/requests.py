"""What is asked of the sampler: tried again when it fails, checked, and counted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentic_rl.errors import BackendError
from agentic_rl.policy.protocol import Completion, Sampler, SamplingParams
from agentic_rl.rollout.attempts import with_retries
from agentic_rl.rollout.config import RolloutConfig


class Requests:
    """The sampling requests of one rollout.

    Attributes
    ----------
    count, failed
        Requests answered, and tries that failed.
    prompt_tokens, sampled_tokens
        Tokens of all answered requests; a prompt counts once however many completions it got.
    """

    def __init__(self, sampler: Sampler, stop_token_ids: tuple[int, ...], config: RolloutConfig) -> None:
        self._sampler = sampler
        self._stop_token_ids = stop_token_ids
        self._config = config
        self.count = 0
        self.failed = 0
        self.prompt_tokens = 0
        self.sampled_tokens = 0

    async def sample(self, prompt: Sequence[int], n: int, *, seed: int, what: str) -> list[Completion]:
        """`n` completions of one prompt, each as long as a turn and the trajectory's room allow.

        Raises
        ------
        TrajectoryFailure
            The sampler failed, was too slow, or answered nonsense, and went on doing so.
        """
        config = self._config
        params = SamplingParams(
            max_tokens=min(config.max_turn_tokens, config.max_trajectory_tokens - len(prompt)),
            temperature=config.temperature,
            top_p=config.top_p,
            stop_token_ids=self._stop_token_ids,
            seed=seed,
        )

        async def attempt() -> list[Completion]:
            self.failed += 1
            completions = await self._sampler.sample(prompt, n, params)
            _check(completions, n, params.max_tokens)
            self.failed -= 1
            return completions

        completions = await with_retries(
            attempt, what=what, retries=config.sample_retries, timeout_s=config.sample_timeout_s
        )
        self.count += 1
        self.prompt_tokens += len(prompt)
        self.sampled_tokens += sum(len(completion.tokens) for completion in completions)
        return completions


def _check(completions: Sequence[Completion], n: int, max_tokens: int) -> None:
    if len(completions) != n:
        raise BackendError(f"the sampler gave {len(completions)} completions instead of {n}")
    for completion in completions:
        if len(completion.tokens) > max_tokens:
            raise BackendError(f"the sampler gave {len(completion.tokens)} tokens where {max_tokens} were allowed")
        if len(completion.logprobs) != len(completion.tokens):
            raise BackendError(
                f"the sampler gave {len(completion.logprobs)} log-probs for {len(completion.tokens)} tokens"
            )
        if not all(map(math.isfinite, completion.logprobs)):
            raise BackendError("the sampler gave a log-prob that is not a finite number")
