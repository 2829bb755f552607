"""The backend on the real SDK: the same numbers as the local backend, whatever the service does to a loss."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import served
import torch

from agentic_rl.errors import BackendError, ConfigError
from agentic_rl.policy.local import open_local_policy
from agentic_rl.policy.protocol import AdamConfig, Datum, FinishReason, LossConfig, SamplingParams
from agentic_rl.policy.pytrio import open_pytrio_policy, open_pytrio_sampler
from agentic_rl.policy.pytrio.reduction import ServiceReduction, service_weights

PROMPT = [40, 41, 42, 43]
PARAMS = SamplingParams(max_tokens=10, seed=4, temperature=1.0, stop_token_ids=(1,))
ADAM = AdamConfig(learning_rate=1e-3)


async def rollout(policy: Any, n: int = 4) -> list[Datum]:
    """Sample a group and give its members different advantages; lengths differ too."""
    sampler = await policy.snapshot()
    completions = await sampler.sample(PROMPT, n, PARAMS)
    datums = []
    for i, completion in enumerate(completions):
        kept = len(completion.tokens) - 2 * (i % 2)
        sequence = np.array([*PROMPT, *completion.tokens[:kept]])
        sampled = np.arange(len(sequence) - 1) >= len(PROMPT) - 1
        old = np.zeros(len(sampled))
        old[sampled] = completion.logprobs[:kept]
        advantages = np.where(sampled, (-1.0) ** i * (0.5 + i), 0.0)
        datums.append(Datum(sequence[:-1], sequence[1:], old, advantages, sampled))
    return datums


async def two_updates(policy: Any, loss: LossConfig) -> list[Datum]:
    datums = await rollout(policy)
    for _ in range(2):
        await policy.update(datums, loss, ADAM)
    return datums


def weights_of(policy: Any, server: served.Server | None = None) -> torch.Tensor:
    """All numbers of the adapter, wherever it lives."""
    trainer = policy._trainer if server is None else server.context.training._live[policy.run_id].learner._trainer
    return torch.cat([weight.detach().flatten() for weight in trainer.parameters.values()])


@pytest.mark.parametrize("reduction", ["token_mean", "sequence_mean", "sum"])
def test_both_backends_sample_alike_and_learn_alike(
    server: served.Server, logged_in: Path, tmp_path: Path, reduction: Any
) -> None:
    loss = LossConfig(reduction=reduction)
    here = open_local_policy("builtin", run_dir=tmp_path / "here", lora_rank=8, seed=5, device="cpu")
    there = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "there", lora_rank=8, seed=5)
    mine, theirs = asyncio.run(two_updates(here, loss)), asyncio.run(two_updates(there, loss))
    for a, b in zip(mine, theirs, strict=True):
        assert (a.targets == b.targets).all()
        assert np.abs(a.old_logprobs - b.old_logprobs).max() < 1e-6
    assert (weights_of(here) - weights_of(there, server)).abs().max() < 1e-5
    asyncio.run(here.aclose())
    asyncio.run(there.aclose())


def test_updates_measure_the_same_things_on_both_backends(logged_in: Path, tmp_path: Path) -> None:
    here = open_local_policy("builtin", run_dir=tmp_path / "here", lora_rank=8, seed=5, device="cpu")
    there = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "there", lora_rank=8, seed=5)

    async def second(policy: Any) -> dict[str, float]:
        datums = await rollout(policy)
        await policy.update(datums, LossConfig(), ADAM)
        return dict(await policy.update(datums, LossConfig(), ADAM))

    mine, theirs = asyncio.run(second(here)), asyncio.run(second(there))
    for name in ("loss", "ratio_mean", "ratio_max", "approx_kl", "clip_fraction"):
        assert theirs[f"trainer/{name}"] == pytest.approx(mine[f"trainer/{name}"], rel=1e-3, abs=1e-5), name
    assert theirs["optimizer/grad_norm"] == pytest.approx(mine["optimizer/grad_norm"], rel=1e-3)
    asyncio.run(here.aclose())
    asyncio.run(there.aclose())


class ReducingEngine:
    """An engine whose losses are not sums, as a service's might be; it does to the weights what the service would."""

    def __init__(self, engine: Any, reduction: ServiceReduction) -> None:
        self._engine = engine
        self._reduction = reduction

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def learner(self, *args: Any, **options: Any) -> Any:
        learner = self._engine.learner(*args, **options)
        plain = learner.forward

        def reduced(items: Sequence[Any], loss: Any, *, backward: bool) -> Any:
            weights = service_weights(self._reduction, [i.active for i in items], [i.advantages for i in items])
            items = [replace(i, weights=i.weights * w) for i, w in zip(items, weights, strict=True)]
            return plain(items, loss, backward=backward)

        learner.forward = reduced
        return learner


@pytest.mark.parametrize(
    ("theirs", "wanted"),
    [*((theirs, "token_mean") for theirs in ServiceReduction), (ServiceReduction.TOKEN_MEAN, "sequence_mean")],
)
def test_the_gradient_is_the_configs_whatever_the_service_divides_by(
    tmp_path: Path, theirs: ServiceReduction, wanted: Any
) -> None:
    loss = LossConfig(reduction=wanted)
    here = open_local_policy("builtin", run_dir=tmp_path / "here", lora_rank=8, seed=5, device="cpu")
    asyncio.run(two_updates(here, loss))
    with served.serving(tmp_path / "state", engine=ReducingEngine(served.fresh_engine(), theirs)) as server:
        served.point_sdk_at(server, tmp_path / "home")
        there = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "there", lora_rank=8, seed=5)
        asyncio.run(two_updates(there, loss))
        assert there.loss_reduction is theirs
        assert (weights_of(here) - weights_of(there, server)).abs().max() < 1e-5
        asyncio.run(there.aclose())
        del there
    asyncio.run(here.aclose())


def test_a_stated_reduction_needs_no_probe(server: served.Server, logged_in: Path, tmp_path: Path) -> None:
    for options in ({"loss_reduction": "token_mean"}, {"probe": False}):
        policy = open_pytrio_policy(served.MODEL, run_dir=tmp_path, lora_rank=8, **options)
        assert policy.loss_reduction == options.get("loss_reduction", "sum")
        asyncio.run(policy.snapshot())
        assert policy.usage()["train_tokens"] == 0
        asyncio.run(policy.aclose())
    with pytest.raises(ConfigError, match="--service-reduction"):
        open_pytrio_policy(served.MODEL, run_dir=tmp_path, loss_reduction="median")


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(logged_in: Path, server: served.Server, tmp_path: Path) -> None:
    loss = LossConfig()
    whole = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "whole", lora_rank=8, seed=5)

    async def run() -> tuple[list[Datum], Any]:
        datums = await rollout(whole)
        await whole.update(datums, loss, ADAM)
        saved = await whole.save("run-step-1")
        await whole.update(datums, loss, ADAM)
        return datums, saved

    datums, saved = asyncio.run(run())
    assert saved.state.startswith("trio://")
    assert saved.state.endswith("/training_state/run-step-1-state")
    assert saved.sampler.endswith("/sampler_weights/run-step-1-weights")
    resumed = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "more", lora_rank=8, resume_from=saved.state)
    asyncio.run(resumed.update(datums, loss, ADAM))
    assert torch.equal(weights_of(whole, server), weights_of(resumed, server))
    sampler = open_pytrio_sampler(served.MODEL, saved.sampler)
    assert sampler.id == saved.sampler
    with pytest.raises(ConfigError, match="--lora-rank 8"):
        open_pytrio_policy(served.MODEL, run_dir=tmp_path, lora_rank=16, resume_from=saved.state)
    with pytest.raises(BackendError, match="sampler_weights"):
        open_pytrio_policy(served.MODEL, run_dir=tmp_path, lora_rank=8, resume_from=saved.sampler)
    with pytest.raises(BackendError, match="nothing"):
        open_pytrio_sampler(served.MODEL, "trio://run_sschmbprfwg0/sampler_weights/nothing")
    asyncio.run(whole.aclose())
    asyncio.run(resumed.aclose())


def test_usage_is_counted_by_kind_and_kept_in_the_run_directory(logged_in: Path, tmp_path: Path) -> None:
    policy = open_pytrio_policy(served.MODEL, run_dir=tmp_path, lora_rank=8, loss_reduction="sum")

    async def play() -> dict[str, float]:
        sampler = await policy.snapshot()
        await sampler.sample(PROMPT, 3, PARAMS)
        await sampler.score(list(range(40, 60)))
        return dict(await policy.update(await rollout(policy), LossConfig(), ADAM))

    metrics = asyncio.run(play())
    assert metrics["trainer/usage/prefill_tokens"] == 2 * len(PROMPT)
    assert metrics["trainer/usage/scoring_tokens"] == 20
    assert metrics["trainer/usage/sample_tokens"] > 0
    assert metrics["trainer/usage/train_tokens"] > 4 * len(PROMPT)
    saved = json.loads((tmp_path / "usage.json").read_text())
    assert saved["tokens"]["scoring"] == policy.usage()["scoring_tokens"] == 20
    again = open_pytrio_policy(served.MODEL, run_dir=tmp_path, lora_rank=8, loss_reduction="sum")
    assert again.usage() == policy.usage(), "a resumed run goes on counting"
    asyncio.run(policy.aclose())


class Edited:
    """A sampling client whose answers are edited on their way, as another service might answer."""

    def __init__(self, client: Any, edit: Any) -> None:
        self._client = client
        self._edit = edit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def sample_async(self, **arguments: Any) -> Any:
        answer = await self._client.sample_async(**arguments)
        sequences = [s.model_copy(update=self._edit(s)) for s in answer.sequences]
        return answer.model_copy(update={"sequences": sequences})


def edited(edit: Any) -> Any:
    sampler = open_pytrio_sampler(served.MODEL)
    sampler._client = Edited(sampler._client, edit)
    return sampler


def test_a_stop_token_may_be_left_in_or_out(logged_in: Path) -> None:
    params = replace(PARAMS, temperature=3.0)
    plain = open_pytrio_sampler(served.MODEL)
    many = asyncio.run(plain.sample(PROMPT, 32, params))
    j, free = next((j, c) for j, c in enumerate(many) if len(c.tokens) > 4 and c.tokens[3] not in c.tokens[:3])
    stop = free.tokens[3]

    async def play(sampler: Any, stop: int) -> Any:
        return (await sampler.sample(PROMPT, 32, replace(params, stop_token_ids=(stop,))))[j]

    inside = asyncio.run(play(plain, stop))
    outside = asyncio.run(play(edited(lambda s: {"tokens": s.tokens[:-1], "logprobs": s.logprobs[:-1]}), stop))
    assert inside.tokens[-1] == stop
    assert outside.tokens == inside.tokens[:-1]
    assert inside.finish_reason is outside.finish_reason is FinishReason.STOP
    # A service that calls every end "length" is believed only where no stop token says otherwise.
    named = asyncio.run(play(edited(lambda s: {"stop_reason": "length"}), stop))
    assert named.finish_reason is FinishReason.STOP


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda s: {"logprobs": s.logprobs[:-1]}, "log-probs for"),
        (lambda s: {"logprobs": [float("nan")] * len(s.tokens)}, "not finite"),
        (lambda s: {"logprobs": [0.5] * len(s.tokens)}, "above 0"),
        (lambda s: {"tokens": [10**6] * len(s.tokens)}, "does not know"),
        (lambda s: {"tokens": s.tokens * 2, "logprobs": s.logprobs * 2}, "at most"),
    ],
)
def test_answers_that_would_spoil_the_ratio_are_refused(logged_in: Path, edit: Any, said: str) -> None:
    with pytest.raises(BackendError, match=said):
        asyncio.run(edited(edit).sample(PROMPT, 2, PARAMS))


def test_a_service_that_ignores_seeds_is_reported(logged_in: Path, caplog: pytest.LogCaptureFixture) -> None:
    sampler = edited(lambda s: {"tokens": [50, 51], "logprobs": [-3.0, -3.0]})
    with caplog.at_level(logging.WARNING):
        asyncio.run(sampler.sample(PROMPT, 4, PARAMS))
    assert "ignore seeds" in caplog.text
    assert sampler.identical_groups == 1
    asyncio.run(sampler.sample(PROMPT, 4, replace(PARAMS, temperature=0.01)))
    asyncio.run(sampler.sample(PROMPT, 1, PARAMS))
    sure = edited(lambda s: {"tokens": [50, 51], "logprobs": [-0.1, -0.1]})
    asyncio.run(sure.sample(PROMPT, 4, PARAMS))
    assert sure.identical_groups == 0, "a model that is sure of its answer repeats it"
    assert sampler.identical_groups == 1, "greedy groups and single completions may be alike"


def test_a_sample_that_hangs_is_given_up(
    logged_in: Path, server: served.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: Any) -> Any:
        await asyncio.sleep(5)

    sampler = open_pytrio_sampler(served.MODEL, sample_timeout_s=0.5)
    monkeypatch.setattr(server.context.sampling, "_ask", hang)
    with pytest.raises(BackendError, match=r"has not answered for 0\.5 s while sampling after 4 tokens"):
        asyncio.run(sampler.sample(PROMPT, 1, PARAMS))


def test_scores_are_the_logprobs_of_sampling(logged_in: Path) -> None:
    sampler = open_pytrio_sampler(served.MODEL)

    async def play() -> tuple[Any, Any]:
        completion = (await sampler.sample(PROMPT, 1, PARAMS))[0]
        return completion, await sampler.score([*PROMPT, *completion.tokens])

    completion, scores = asyncio.run(play())
    assert scores[0] == 0.0
    assert scores[len(PROMPT) :] == pytest.approx(completion.logprobs, abs=1e-5)
