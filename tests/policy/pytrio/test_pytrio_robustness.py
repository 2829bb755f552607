"""Faults of every kind, restarts and neighbours: nothing is lost, nothing is done twice, nothing hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import served
import torch

from agentic_rl.errors import BackendError
from agentic_rl.policy.protocol import AdamConfig, Datum, LossConfig, SamplingParams
from agentic_rl.policy.pytrio import open_pytrio_policy
from agentic_rl.serving import faults as faults_module
from agentic_rl.serving.faults import KINDS, FaultSpec

PROMPT = [40, 41, 42, 43]
ADAM = AdamConfig(learning_rate=1e-3)


async def update(policy: Any, seed: int) -> list[tuple[int, ...]]:
    """One on-policy step: a snapshot, two groups, scores, an update. Returns what was sampled."""
    sampler = await policy.snapshot()
    params = [SamplingParams(max_tokens=6, seed=seed + i, stop_token_ids=(1,)) for i in range(2)]
    groups = await asyncio.gather(*(sampler.sample(PROMPT, 4, p) for p in params))
    completions = [completion for group in groups for completion in group]
    await asyncio.gather(*(sampler.score([*PROMPT, *c.tokens]) for c in completions))
    datums = []
    for i, completion in enumerate(completions):
        sequence = np.array([*PROMPT, *completion.tokens])
        sampled = np.arange(len(sequence) - 1) >= len(PROMPT) - 1
        old = np.zeros(len(sampled))
        old[sampled] = completion.logprobs
        datums.append(Datum(sequence[:-1], sequence[1:], old, np.where(sampled, (-1.0) ** i, 0.0), sampled))
    metrics = await policy.update(datums, LossConfig(), ADAM)
    assert metrics["optimizer/step"] == seed // 10
    return [completion.tokens for completion in completions]


def adapter(server: served.Server, run: str) -> torch.Tensor:
    learner = server.context.training._live[run].learner
    return torch.cat([weight.detach().flatten() for weight in learner._trainer.parameters.values()])


def trained(server: served.Server, tmp_path: Path, updates: int = 3) -> tuple[list[Any], torch.Tensor]:
    served.point_sdk_at(server, tmp_path / "home")
    policy = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "run", lora_rank=8, seed=2)

    async def play() -> list[Any]:
        sampled = [await update(policy, 10 * number) for number in range(1, updates + 1)]
        await policy.save("final")
        return sampled

    result = asyncio.run(play()), adapter(server, policy.run_id)
    asyncio.run(policy.aclose())
    return result


def test_faults_of_every_kind_change_nothing(
    server: served.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults_module, "SLOW_SECONDS", 0.2)
    plain, weights = trained(server, tmp_path)
    rate = 0.08
    faults = tuple(FaultSpec(kind, rate, seed=3) for kind in KINDS)
    with served.serving(tmp_path / "state", faults=faults) as faulty:
        sampled, faulty_weights = trained(faulty, tmp_path / "faulty")
        assert sum(faulty.context.faults.counts.values()) >= 5, faulty.context.faults.counts
    assert sampled == plain, "no completion was lost or drawn anew"
    assert torch.equal(weights, faulty_weights), "no step was done twice or left out"


def test_a_server_may_be_restarted_between_two_updates(server: served.Server, tmp_path: Path) -> None:
    whole, weights = trained(server, tmp_path / "whole", updates=2)
    state = tmp_path / "state"
    with served.serving(state) as first:
        port = int(first.url.rsplit(":", 1)[1])
        served.point_sdk_at(first, tmp_path / "home")
        policy = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "run", lora_rank=8, seed=2)
        sampled = [asyncio.run(update(policy, 10))]
    with served.serving(state, port=port) as second:
        started = time.monotonic()
        sampled.append(asyncio.run(update(policy, 20)))
        assert time.monotonic() - started < 60
        assert sampled == whole
        assert torch.equal(weights, adapter(second, policy.run_id))
        asyncio.run(policy.aclose())


def test_a_server_that_stops_in_the_middle_of_an_update_ends_it_with_a_way_out(tmp_path: Path) -> None:
    """Whether the step was done cannot be known, so it is not done again."""
    state = tmp_path / "state"
    with served.serving(state) as first:
        port = int(first.url.rsplit(":", 1)[1])
        served.point_sdk_at(first, tmp_path / "home")
        policy = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "run", lora_rank=8, seed=2)
        asyncio.run(update(policy, 10))
        run = policy.run_id
    (state / "runs" / run / "parked").rename(tmp_path / "gone")
    with served.serving(state, port=port):
        started = time.monotonic()
        with pytest.raises(BackendError, match="run_lost"):
            asyncio.run(update(policy, 20))
        assert time.monotonic() - started < 60
        asyncio.run(policy.aclose())


def test_two_clients_at_once_do_not_touch_each_other(server: served.Server, tmp_path: Path) -> None:
    alone, weights = trained(server, tmp_path / "alone", updates=2)
    served.point_sdk_at(server, tmp_path / "home")
    policies = [
        open_pytrio_policy(served.MODEL, run_dir=tmp_path / name, lora_rank=8, seed=seed)
        for name, seed in (("a", 2), ("b", 9))
    ]

    async def play(policy: Any) -> list[Any]:
        return [await update(policy, 10), await update(policy, 20)]

    async def both() -> list[list[Any]]:
        return await asyncio.gather(*(play(policy) for policy in policies))

    sampled, others = asyncio.run(both())
    assert sampled == alone
    assert others != alone
    assert torch.equal(adapter(server, policies[0].run_id), weights)
    for policy in policies:
        asyncio.run(policy.aclose())


def test_waiting_is_said_aloud(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentic_rl.policy.pytrio import failures

    monkeypatch.setattr(failures, "STILL_WAITING_SECONDS", 0.05)

    async def answered(done: asyncio.Event, number: int) -> int:
        await done.wait()
        return number

    async def many() -> float:
        done, began = asyncio.Event(), time.monotonic()
        calls = (failures.waiting(answered(done, i), "opening a run") for i in range(10))
        all_of_them = asyncio.gather(*calls)
        async with asyncio.timeout(20):
            while len(caplog.records) < 3:
                await asyncio.sleep(0.01)
        done.set()
        assert await all_of_them == list(range(10))
        return time.monotonic() - began

    with caplog.at_level(logging.WARNING):
        seconds = asyncio.run(many())
    lines = [record.message for record in caplog.records]
    assert len(lines) <= 1 + seconds / failures.STILL_WAITING_SECONDS, "one line at a time speaks for all that wait"
    assert all(re.fullmatch(r"still waiting for PyTRIO after \d+ s: .* \(9 others wait too\)", line) for line in lines)


def test_only_failures_that_left_nothing_behind_are_repeated() -> None:
    from pytrio.errors.actor import ActorAPIError, ActorEventGetError
    from pytrio.errors.event import EventFailedError

    from agentic_rl.policy.pytrio import failures

    async def play(error: Exception, **options: bool) -> int:
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            raise error

        with pytest.raises(BackendError):
            await failures.repeated(attempt, "trying", delay=0.001, **options)
        return attempts

    def failed(code: str) -> Exception:
        return EventFailedError("event_1", code, "no")

    assert asyncio.run(play(failed("internal_error"))) == failures.ATTEMPTS
    assert asyncio.run(play(failed("invalid_loss_config"))) == 1
    assert asyncio.run(play(ActorEventGetError("lost", status_code=404))) == 1, "it may have been done"
    assert asyncio.run(play(RuntimeError("ours"))) == 1
    cut_off = ActorAPIError("cut off", code="actor.invalid_response")
    assert asyncio.run(play(cut_off)) == 1
    assert asyncio.run(play(cut_off, changes_nothing=True)) == failures.ATTEMPTS


@pytest.mark.slow
def test_a_client_killed_in_the_middle_leaves_the_server_to_the_others(server: served.Server, tmp_path: Path) -> None:
    script = (
        "import os, pytrio as trio\n"
        "client = trio.ServiceClient(api_key=os.environ['PYTRIO_API_KEY'])"
        f".create_lora_training_client({served.MODEL!r}, rank=8)\n"
        "tokens = [40 + i % 50 for i in range(3000)]\n"
        "datum = trio.Datum(model_input=trio.ModelInput.from_ints(tokens[:-1]),"
        " loss_fn_inputs={'target_tokens': tokens[1:]})\n"
        "futures = [client.forward_backward([datum] * 4) for _ in range(4)]\n"
        "print('sent', flush=True)\n"
        "futures[-1].result()\n"
    )
    environment = os.environ | {
        "PYTRIO_BASE_URL": server.url,
        "PYTRIO_API_KEY": served.API_KEY,
        "HOME": str(tmp_path),
    }
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "sent\n"
        killed.kill()
    started = time.monotonic()
    sampled, _ = trained(server, tmp_path, updates=1)
    assert len(sampled[0]) == 8
    assert time.monotonic() - started < 60
