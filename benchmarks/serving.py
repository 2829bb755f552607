"""What it costs to play 128 trajectories through HTTP and the SDK, against the same engine in this process.

    uv run --extra local python benchmarks/serving.py [--base-model builtin] [--turns N] [--repeats N]

The same games, seeds and weights on both sides, so the same tokens are sampled. Prints wall times and CPU times (of the
server and this process together), their ratios beside the target of the issue "PyTRIO for real", and how long
the event loop was kept waiting at most. On a busy machine the CPU ratio is the one to trust.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL = "Served/Model"
TARGET_RATIO = 1.5
TARGET_LAG_MS = 250


@dataclass(frozen=True)
class Measured:
    """One rollout."""

    wall: float
    cpu: float
    lag_ms: float
    tokens: int
    trajectories: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--base-model", default="builtin")
    parser.add_argument("--games", type=int, default=16)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--turn-tokens", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(arguments.base_model, Path(folder)) as server:
        from agentic_rl.policy import open_sampler
        from agentic_rl.policy.settle import settle_memory

        here = open_sampler("local", arguments.base_model, device="cpu")
        there = open_sampler("pytrio", MODEL, max_in_flight=128)
        assert len(here.tokenizer) == len(there.tokenizer)  # both are loaded now: nothing more will stay
        settle_memory()  # as every command does
        pairs = []
        for repeat in range(arguments.repeats + 1):
            pair = [asyncio.run(play(sampler, arguments, repeat, server)) for sampler in (here, there)]
            assert pair[0].tokens == pair[1].tokens, "both sides must sample the same"
            if repeat:  # the first one warms both sides up
                pairs.append(pair)
    for name, i in (("in process", 0), ("over HTTP", 1)):
        best = min((pair[i] for pair in pairs), key=lambda one: one.wall)
        lag = max(pair[i].lag_ms for pair in pairs)
        print(
            f"{name:12} {best.trajectories} trajectories, {best.tokens} tokens: {best.wall:6.2f} s wall, "
            f"{best.cpu:6.2f} s CPU, event loop late by at most {lag:.0f} ms"
        )
    wall, cpu = (min(getattr(p[1], kind) / getattr(p[0], kind) for p in pairs) for kind in ("wall", "cpu"))
    print(f"ratio: {wall:.2f} wall, {cpu:.2f} CPU (target: at most {TARGET_RATIO}); lag target {TARGET_LAG_MS} ms")


async def play(sampler: Any, arguments: argparse.Namespace, update: int, server: int) -> Measured:
    """All trajectories of one update, live at once."""
    from agentic_rl.dialogue import ChatFormat
    from agentic_rl.games.generate import household_games
    from agentic_rl.rollout.config import RolloutConfig
    from agentic_rl.rollout.runner import run_groups

    config = RolloutConfig(
        group_size=arguments.group_size,
        max_turns=arguments.turns,
        max_trajectory_tokens=12_000,
        max_turn_tokens=arguments.turn_tokens,
    )
    entries = household_games("train", arguments.games, 1, 0)
    chat = ChatFormat.from_tokenizer(sampler.tokenizer)
    late: list[float] = []
    watch = asyncio.create_task(watch_loop(late))
    started, cpu = time.perf_counter(), cpu_seconds(server)
    rollout = await run_groups(entries, sampler, chat, config, update=update)
    wall, cpu = time.perf_counter() - started, cpu_seconds(server) - cpu
    watch.cancel()
    trajectories = sum(len(group.trajectories) for group in rollout.groups)
    assert trajectories == arguments.games * arguments.group_size, rollout.failures
    return Measured(wall, cpu, 1e3 * max(late), rollout.sampled_tokens, trajectories)


async def watch_loop(late: list[float]) -> None:
    """How much later than asked the event loop comes back, again and again."""
    while True:
        asked = time.perf_counter()
        await asyncio.sleep(0.005)
        late.append(time.perf_counter() - asked - 0.005)


def cpu_seconds(server: int) -> float:
    """CPU time of this process and of the server."""
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(base_model: str, folder: Path) -> Iterator[int]:
    """A server in a process of its own; gives its process id and points the SDK at it."""
    command = [sys.executable, "-m", "agentic_rl.cli", "serve", "--base-model", base_model, "--port", "0"]
    command += ["--served-model-name", MODEL, "--state-dir", str(folder), "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        shown = "".join(process.stdout.readline() for _ in range(3))
        os.environ |= dict(re.findall(r"export (PYTRIO_\w+)=(\S+)", shown))
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


if __name__ == "__main__":
    main()
