"""How much faster the local engine plays than the plain way: `python benchmarks/local_sampler.py --help`.

The same dialogues are played twice in one process, with the same model, seeds and lengths:

- engine: all trajectories at once through `LocalSampler`, slots kept between turns;
- plain: one after another through `generate` of transformers, which reads the whole history again at every turn.

A model of random weights plays, so every turn has its full length: a shorter run measures the same work a token. The
script prints one line a contender and the ratios, of wall time and of the process's CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agentic_rl.policy.local import LocalSampler, open_local_sampler
from agentic_rl.policy.local.loading import load_base_model
from agentic_rl.policy.protocol import SamplingParams


@dataclass(frozen=True)
class Load:
    """What is played: groups of branches of one first prompt, then turns with an observation between."""

    groups: int
    branches: int
    turns: int
    prompt_tokens: int
    observation_tokens: int
    sampled_tokens: int

    def prompt(self, group: int) -> list[int]:
        return np.random.default_rng(group).integers(2, 250, self.prompt_tokens).tolist()

    def observation(self, group: int, branch: int, turn: int) -> list[int]:
        random = np.random.default_rng((group, branch, turn))
        half = self.observation_tokens // 2
        return random.integers(2, 250, int(random.integers(half, 3 * half))).tolist()


async def play_engine(sampler: LocalSampler, load: Load) -> int:
    """Everything at once; returns the number of sampled tokens."""

    async def trajectory(group: int, branch: int, tokens: list[int]) -> None:
        for turn in range(1, load.turns):
            tokens += load.observation(group, branch, turn)
            params = SamplingParams(max_tokens=load.sampled_tokens, seed=1000 * group + 100 * branch + turn)
            (completion,) = await sampler.sample(tokens, 1, params)
            tokens += completion.tokens

    async def whole_group(group: int) -> None:
        prompt = load.prompt(group)
        firsts = await sampler.sample(prompt, load.branches, SamplingParams(max_tokens=load.sampled_tokens, seed=group))
        await asyncio.gather(*(trajectory(group, b, [*prompt, *first.tokens]) for b, first in enumerate(firsts)))

    await asyncio.gather(*(whole_group(group) for group in range(load.groups)))
    return sampler.stats.sampled_tokens


def play_plain(model: Any, load: Load) -> int:
    """One trajectory after another, each turn from nothing."""
    sampled = 0
    for group in range(load.groups):
        for branch in range(load.branches):
            tokens = load.prompt(group)
            for turn in range(load.turns):
                if turn:
                    tokens += load.observation(group, branch, turn)
                ids = torch.tensor([tokens])
                answer = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=True,
                    max_new_tokens=load.sampled_tokens,
                    min_new_tokens=load.sampled_tokens,
                )
                tokens = answer[0].tolist()
                sampled += load.sampled_tokens
    return sampled


def timed(name: str, play: Callable[[], int]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    sampled = play()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(
        f"{name:<8} {sampled:>7} sampled tokens  {wall:8.2f} s wall  {cpu:8.2f} s CPU  {sampled / wall:9.0f} tokens/s"
    )
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-model", default="builtin", help="local folder, hub id, or builtin")
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--branches", type=int, default=8)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--prompt-tokens", type=int, default=250)
    parser.add_argument("--observation-tokens", type=int, default=50)
    parser.add_argument("--sampled-tokens", type=int, default=9)
    parser.add_argument("--threads", type=int, default=None, help="torch threads; default: torch's own")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    load = Load(
        options.groups,
        options.branches,
        options.turns,
        options.prompt_tokens,
        options.observation_tokens,
        options.sampled_tokens,
    )
    sampler = open_local_sampler(options.base_model, device="cpu")
    plain = load_base_model(options.base_model, device="cpu").model
    print(f"{load.groups * load.branches} trajectories of {load.turns} turns, {torch.get_num_threads()} torch threads")
    engine_wall, engine_cpu = timed("engine", lambda: asyncio.run(play_engine(sampler, load)))
    plain_wall, plain_cpu = timed("plain", lambda: play_plain(plain, load))
    asyncio.run(sampler.aclose())
    print(
        f"engine is {plain_wall / engine_wall:.1f} times faster by the clock, {plain_cpu / engine_cpu:.1f} by CPU time"
    )


if __name__ == "__main__":
    sys.exit(main())
