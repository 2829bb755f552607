"""Play every game of a panel once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentic_rl.evaluation.record import trajectory_record
from agentic_rl.games import expert_steps
from agentic_rl.games.interface import GameEntry
from agentic_rl.policy.protocol import Sampler
from agentic_rl.results.records import TrajectoryRecord
from agentic_rl.rollout import RolloutConfig, run_groups
from agentic_rl.rollout.progress import PlayListener
from agentic_rl.rollout.trajectory import Trajectory

if TYPE_CHECKING:
    from agentic_rl.dialogue import ChatFormat


async def evaluate(
    entries: Sequence[GameEntry],
    sampler: Sampler,
    chat: ChatFormat,
    config: RolloutConfig,
    *,
    reward: Callable[[Trajectory], float],
    on_record: Callable[[TrajectoryRecord], None] | None = None,
    progress: PlayListener | None = None,
    expert: bool = True,
) -> list[TrajectoryRecord]:
    """One episode of every game, without skills.

    The same games, seed and weights give the same records, however many are played at once and in whatever order
    they end; so two checkpoints are compared on the same random numbers.

    Parameters
    ----------
    config
        `max_live` games are played at once. The group size is not read: it is 1.
    reward
        The recipe's.
    on_record
        Called as each game ends. If it fails, the evaluation fails.
    expert
        Look for a shortest solution of every game won, where the simulator can.

    Returns
    -------
    list
        Sorted by game id. A game whose samples or environment went on failing is not in it (the rollout has said so).
    """
    records: list[TrajectoryRecord] = []

    async def keep(trajectory: Trajectory) -> None:
        # Nothing is awaited here, so that a game that has ended is kept even if Ctrl-C comes now.
        steps = expert_steps(trajectory.game) if expert and trajectory.won else None
        record = trajectory_record(trajectory, reward=reward(trajectory), expert_steps=steps)
        if on_record is not None:
            on_record(record)
        records.append(record)

    one_each = replace(config, group_size=1)
    await run_groups(entries, sampler, chat, one_each, update=0, on_trajectory=keep, progress=progress)
    return sorted(records, key=lambda record: record.game_id)
