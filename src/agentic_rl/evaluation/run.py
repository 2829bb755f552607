"""The whole of `eval.py`: what is checked first, what is opened, what is written, what is said at the end."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentic_rl.config import as_json
from agentic_rl.errors import BackendError, ConfigError
from agentic_rl.evaluation.config import EvalConfig
from agentic_rl.evaluation.opening import OpenSampler, open_player
from agentic_rl.evaluation.play import evaluate
from agentic_rl.evaluation.progress import GameProgress
from agentic_rl.games.interface import GameEntry
from agentic_rl.games.source import load_entries
from agentic_rl.policy.protocol import Sampler
from agentic_rl.results import PartialResults, Summary, choose_games, panel_hash, summarize, summary_table
from agentic_rl.results.partial import refuse_existing
from agentic_rl.rollout import RolloutConfig
from agentic_rl.rollout.trajectory import StopReason, Trajectory

type Reward = Callable[[Trajectory], float]

HARMLESS = frozenset(
    {
        "data_root",
        "split",
        "limit_per_split",
        "games_per_batch",
        "output",
        "overwrite_output",
        "dry_run",
        "sample_retries",
        "sample_timeout",
        "run_dir",
        "run_name",
        "swanlab_mode",
        "swanlab_project",
    }
)
"""Flags that cannot change how a game ends: where things are, how fast they go, who is told, and which games (they
are compared by their own hash)."""


def run_evaluation(config: EvalConfig, *, reward: Reward, turn_limit_reason: StopReason) -> int:
    """Evaluate one checkpoint (or the base model) from the config to the finished file; the exit code.

    Nothing is loaded or sampled before the output is known to be free and the games are known to be there.
    """
    refuse_existing(config.output, overwrite=config.overwrite_output)
    games = choose_games(
        load_entries(config.games, config.data_root, config.splits),
        limit_per_split=config.limit_per_split,
        seed=config.seed,
    )
    if not games:
        raise ConfigError(f"--split {config.split} has no games")
    if config.dry_run:
        print(describe(config, games))
        return 0
    asyncio.run(_evaluate(config, games, reward, turn_limit_reason))
    return 0


def describe(config: EvalConfig, games: Sequence[GameEntry]) -> str:
    """What `--dry-run` prints: the resolved config and the work it implies."""
    turns = len(games) * config.turn_limit
    counts = ", ".join(f"{sum(game.split == split for game in games)} {split}" for split in config.splits)
    return "\n".join(
        [
            json.dumps(as_json(config), indent=2),
            f"games: {counts} (panel {panel_hash(game.game_id for game in games)})",
            f"at most {turns} turns and {turns * config.turn_tokens} sampled tokens, "
            f"{config.games_per_batch} games at once",
            f"output: {config.output}",
        ]
    )


def settings(config: EvalConfig, sampler: Sampler) -> dict[str, Any]:
    """Everything that may change how a game ends, by the names of the flags.

    Local weights are named by their content, since a folder may hold others tomorrow; a service's by their address.
    """
    flags = {name: value for name, value in as_json(config).items() if name not in HARMLESS}
    return flags | ({"weights": sampler.id} if config.backend == "local" else {})


async def _evaluate(
    config: EvalConfig, games: Sequence[GameEntry], reward: Reward, turn_limit_reason: StopReason
) -> None:
    from agentic_rl.tracking import Tracker

    tracker = Tracker(
        None,
        mode=config.swanlab_mode,
        project=config.swanlab_project,
        name=config.run_name,
        log_dir=config.run_dir / "swanlab",
        config=as_json(config),
    )
    with tracker:
        sampler = open_player(config, group_size=1)
        try:
            ids = [game.game_id for game in games]
            with PartialResults(
                config.output, settings(config, sampler), ids, overwrite=config.overwrite_output
            ) as partial:
                earlier = len(partial.records)
                await _play(config, games, sampler, partial, reward, turn_limit_reason)
                usage = _usage(sampler, len(partial.records) - earlier)
                tracker.log(0, _finish(config, partial, usage))
        finally:
            await sampler.aclose()


async def _play(
    config: EvalConfig,
    games: Sequence[GameEntry],
    sampler: OpenSampler,
    partial: PartialResults,
    reward: Reward,
    turn_limit_reason: StopReason,
) -> None:
    """Play what is missing; every game is on disk as it ends."""
    from agentic_rl.dialogue import ChatFormat
    from agentic_rl.policy.settle import settle_memory

    chat = ChatFormat.from_tokenizer(sampler.tokenizer)
    settle_memory()
    finished, won = len(partial.records), sum(record.won for record in partial.records.values())
    if finished:
        print(f"going on with {finished} finished games of {partial.path}", flush=True)
    try:
        with GameProgress(len(games), finished=finished, won=won) as progress:
            await evaluate(
                [game for game in games if game.game_id in partial.missing],
                sampler,
                chat,
                RolloutConfig.of(
                    config, group_size=1, max_live=config.games_per_batch, turn_limit_reason=turn_limit_reason
                ),
                reward=reward,
                on_record=partial.add,
                progress=progress,
            )
    except asyncio.CancelledError:
        kept = f"{len(partial.records)} of {len(games)} games are in {partial.path}"
        print(f"{kept}; the same command goes on with them", file=sys.stderr)
        raise
    if partial.missing:
        raise BackendError(
            f"{len(partial.missing)} of {len(games)} games could not be played to their end",
            hint=f"The warnings say why; the others are kept in {partial.path}, and the same command plays the rest",
        )


def _usage(sampler: Sampler, games: int) -> dict[str, int] | None:
    """What playing them took of a service that counts; None where the model is ours."""
    count = getattr(sampler, "usage", None)
    return None if count is None else {"games": games, **{kind: tokens for kind, tokens in count().items() if tokens}}


def _finish(config: EvalConfig, partial: PartialResults, usage: Mapping[str, int] | None) -> dict[str, float]:
    """Write the finished file and say what stands in it; the metrics."""
    records = list(partial.records.values())
    metrics = summarize(records)
    summary = Summary(
        base_model=config.base_model,
        model_path=config.model_path,
        skill_free=True,
        metrics=metrics,
        panel=panel_hash(partial.panel),
        settings=partial.settings,
        usage=usage,
    )
    partial.finish(summary)
    print(summary_table(records))
    if usage is not None:
        counts = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in usage.items())
        print(f"Used: {counts}")
    print(f"Results: {config.output}")
    return metrics
