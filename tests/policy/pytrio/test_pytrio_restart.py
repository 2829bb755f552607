"""A server process that ends with requests in flight: nothing hangs, nothing saved is lost, and it is said what was."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrio as trio
import served

from agentic_rl.errors import BackendError
from agentic_rl.policy.protocol import AdamConfig, Datum, LossConfig, SamplingParams
from agentic_rl.policy.pytrio import open_pytrio_policy

PROMPT = [40, 41, 42, 43]
LONG = SamplingParams(max_tokens=500, seed=5)
LONGEST_HANG = 60.0


@contextlib.contextmanager
def process(state: Path, port: int, log: Path) -> Iterator[subprocess.Popen[str]]:
    """`agentic-rl serve` on a known port, answering when this is entered."""
    command = [sys.executable, "-m", "agentic_rl.cli", "serve", "--port", str(port), "--state-dir", str(state)]
    command += ["--api-key", served.API_KEY, "--served-model-name", served.MODEL, "--device", "cpu"]
    with log.open("a") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server:
        assert server.stdout is not None
        shown = [server.stdout.readline() for _ in range(3)]
        assert "PYTRIO_API_KEY" in shown[-1], log.read_text()
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


def point_sdk_at(port: int, home: Path) -> None:
    trio.configure_observability(enabled=False)
    trio.configure(home=str(home), base_url=f"http://127.0.0.1:{port}", api_key=served.API_KEY)


def datums(tokens: int) -> list[Datum]:
    """Four made-up trajectories: the first half is the prompt."""
    sequence = np.array([40 + i % 50 for i in range(tokens + 1)])
    sampled = np.arange(tokens) >= tokens // 2
    return [
        Datum(sequence[:-1], sequence[1:], np.where(sampled, -3.0, 0.0), np.where(sampled, sign, 0.0), sampled)
        for sign in (1.0, -1.0, 0.5, -0.5)
    ]


async def learn(policy: Any, tokens: int = 40) -> float:
    return float((await policy.update(datums(tokens), LossConfig(), AdamConfig(1e-3)))["optimizer/step"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_stopped_while_it_samples_ends_soon_and_the_client_goes_on_with_the_next(
    port: int, tmp_path: Path
) -> None:
    point_sdk_at(port, tmp_path / "home")
    log = tmp_path / "stderr"

    async def play() -> None:
        with process(tmp_path / "state", port, log) as server:
            policy = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "run", lora_rank=8)
            assert await learn(policy) == 1
            saved = await policy.save("kept")
            sampler = await policy.snapshot()
            asked = [asyncio.create_task(sampler.sample(PROMPT, 4, LONG)) for _ in range(2)]
            await asyncio.sleep(1)
            assert not any(task.done() for task in asked), "it must be stopped while it works"
            server.send_signal(signal.SIGINT)
            stopped = time.monotonic()
            await asyncio.to_thread(server.wait, LONGEST_HANG)
            assert time.monotonic() - stopped < 20
        with process(tmp_path / "state", port, log):
            started = time.monotonic()
            answers = await asyncio.wait_for(asyncio.gather(*asked), LONGEST_HANG)
            assert time.monotonic() - started < LONGEST_HANG
            assert answers[0] == answers[1] == await sampler.sample(PROMPT, 4, LONG)
            assert await learn(policy) == 2, "the run was put on disk as the server stopped"
            again = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "b", lora_rank=8, resume_from=saved.state)
            assert await learn(again) == 2
            await again.aclose()
            await policy.aclose()

    asyncio.run(play())
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_killed_in_an_update_says_what_is_lost_and_keeps_what_was_saved(port: int, tmp_path: Path) -> None:
    point_sdk_at(port, tmp_path / "home")
    log = tmp_path / "stderr"

    async def play() -> None:
        with process(tmp_path / "state", port, log) as server:
            policy = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "run", lora_rank=8)
            assert await learn(policy) == 1
            saved = await policy.save("kept")
            update = asyncio.create_task(learn(policy, tokens=3000))
            await asyncio.sleep(1)
            assert not update.done(), "it must be killed while it works"
            server.kill()
            await asyncio.to_thread(server.wait, 10)
        with process(tmp_path / "state", port, log):
            with pytest.raises(BackendError) as lost:
                await asyncio.wait_for(update, LONGEST_HANG)
            assert lost.value.hint is not None
            assert "resume" in lost.value.hint
            again = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "b", lora_rank=8, resume_from=saved.state)
            assert await learn(again) == 2
            await again.aclose()
            await policy.aclose()

    asyncio.run(play())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_that_stays_away_ends_a_sample_after_the_time_that_was_set(port: int, tmp_path: Path) -> None:
    point_sdk_at(port, tmp_path / "home")

    async def play() -> None:
        with process(tmp_path / "state", port, tmp_path / "stderr") as server:
            policy = open_pytrio_policy(served.MODEL, run_dir=tmp_path / "run", lora_rank=8, sample_timeout_s=15)
            sampler = await policy.snapshot()
            asked = asyncio.create_task(sampler.sample(PROMPT, 4, LONG))
            await asyncio.sleep(1)
            server.kill()
            with pytest.raises(BackendError, match="has not answered for 15 s"):
                await asyncio.wait_for(asked, LONGEST_HANG)
            await asyncio.wait_for(policy.aclose(), LONGEST_HANG)

    asyncio.run(play())
