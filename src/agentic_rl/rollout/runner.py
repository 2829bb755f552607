"""Groups of trajectories, each at its own pace.

No trajectory waits for another: it has its own task, its own requests and its own episode, and the slot that it
frees goes to the next at once. What fails is tried again, and then costs that trajectory only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentic_rl.errors import BackendError
from agentic_rl.games.interface import GameEntry
from agentic_rl.policy.protocol import Sampler
from agentic_rl.rollout.config import RolloutConfig
from agentic_rl.rollout.environment import Environments
from agentic_rl.rollout.group import GroupPlay, OnTrajectory, Table
from agentic_rl.rollout.play import FirstPrompt, check_room
from agentic_rl.rollout.progress import PlayListener, Silence
from agentic_rl.rollout.requests import Requests
from agentic_rl.rollout.trajectory import Group

if TYPE_CHECKING:
    from agentic_rl.dialogue import ChatFormat


@dataclass(frozen=True, slots=True)
class Rollout:
    """What was played, and what it took.

    Attributes
    ----------
    groups
        In the order of the entries; trajectories in the order of their branches.
    dropped_trajectories
        Trajectories that failed.
    left_out_groups
        Groups with too few trajectories left to compare; those few are in no group.
    failures
        One line for each thing that failed for good.
    sample_requests, failed_requests
        Requests answered; tries that failed, whether or not a later one succeeded.
    prompt_tokens, sampled_tokens
        Tokens of the answered requests.
    """

    groups: tuple[Group, ...] = field(repr=False)
    dropped_trajectories: int
    left_out_groups: int
    failures: tuple[str, ...]
    sample_requests: int
    failed_requests: int
    prompt_tokens: int
    sampled_tokens: int


async def run_groups(
    entries: Sequence[GameEntry],
    sampler: Sampler,
    chat: ChatFormat,
    config: RolloutConfig,
    *,
    update: int,
    on_trajectory: OnTrajectory | None = None,
    progress: PlayListener | None = None,
) -> Rollout:
    """Play `config.group_size` episodes of every entry.

    Parameters
    ----------
    entries
        A game that stands here twice is played in two groups with seeds of their own.
    update
        Part of every seed.
    on_trajectory
        Called as each trajectory ends, while others still play; awaited before this returns. A `BackendError` drops
        its trajectory; any other error ends the rollout.
    progress
        Told of every turn and every end.

    Raises
    ------
    ConfigError
        A first prompt that does not fit the token limit; nothing has been sampled then.
    BackendError
        Not one trajectory came to its end.
    """
    check_first_prompts(entries, chat, config)
    total = len(entries) * config.group_size
    live = max(1, min(config.max_live or total, total))
    with Environments(config.engine, live=live) as environments:
        table = Table(
            update=update,
            config=config,
            chat=chat,
            requests=Requests(sampler, tuple(chat.stop_token_ids), config),
            environments=environments,
            slots=asyncio.Semaphore(live),
            progress=progress or Silence(),
            on_trajectory=on_trajectory,
        )
        plays = [GroupPlay(entry, key, table) for entry, key in zip(entries, _keys(entries), strict=True)]
        table.progress.on_start(total)
        try:
            async with asyncio.TaskGroup() as tasks:
                for play in plays:
                    for index in range(config.group_size):
                        await table.slots.acquire()
                        tasks.create_task(play.branch(index))
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
            raise first from first.__cause__
    return _collect(plays, table)


def check_first_prompts(entries: Iterable[GameEntry], chat: ChatFormat, config: RolloutConfig) -> None:
    """Refuse, before anything is sampled, a token limit that some game's first prompt does not fit.

    The simulator is asked whatever engine will play: it says the same words and costs milliseconds. A game that it
    cannot open is left for the engine to judge.
    """
    for entry in {entry.game_id: entry for entry in entries}.values():
        try:
            episode = entry.open("simulator")
            start = episode.reset()
            episode.close()
        except Exception:
            continue
        first = FirstPrompt.of(start, config)
        check_room(len(chat.render_first(first.system, first.user)), entry, config)


def _keys(entries: Iterable[GameEntry]) -> list[str]:
    """A game's id; from its second appearance on with a number behind it."""
    seen: Counter[str] = Counter()
    keys = []
    for entry in entries:
        seen[entry.game_id] += 1
        times = seen[entry.game_id]
        keys.append(entry.game_id if times == 1 else f"{entry.game_id}#{times}")
    return keys


def _collect(plays: Sequence[GroupPlay], table: Table) -> Rollout:
    failures = [failure for play in plays for failure in play.failures.values()]
    if failures and not any(play.ended for play in plays):
        raise BackendError(
            f"not one of {len(failures)} trajectories came to its end; the first failure: {failures[0].message}"
        ) from failures[0]
    enough = min(2, table.config.group_size)
    groups = [
        Group(
            game=play.entry,
            group_id=play.group_id,
            trajectories=tuple(play.ended[index] for index in sorted(play.ended)),
            dropped=len(play.failures),
        )
        for play in plays
        if len(play.ended) >= enough
    ]
    return Rollout(
        groups=tuple(groups),
        dropped_trajectories=len(failures),
        left_out_groups=len(plays) - len(groups),
        failures=tuple(dict.fromkeys(map(str, failures))),
        sample_requests=table.requests.count,
        failed_requests=table.requests.failed,
        prompt_tokens=table.requests.prompt_tokens,
        sampled_tokens=table.requests.sampled_tokens,
    )
