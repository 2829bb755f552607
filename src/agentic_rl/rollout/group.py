"""One group at play: independent episodes of one game that share their first request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentic_rl.errors import BackendError
from agentic_rl.games.interface import GameEntry, StepResult
from agentic_rl.policy.protocol import Completion
from agentic_rl.rollout.attempts import TrajectoryFailure
from agentic_rl.rollout.config import RolloutConfig
from agentic_rl.rollout.environment import Environments
from agentic_rl.rollout.play import Branch, FirstPrompt, check_room
from agentic_rl.rollout.progress import PlayListener
from agentic_rl.rollout.requests import Requests
from agentic_rl.rollout.seeds import FIRST_REQUEST, derive_seed
from agentic_rl.rollout.trajectory import Trajectory

if TYPE_CHECKING:
    from agentic_rl.dialogue import ChatFormat, Transcript

type OnTrajectory = Callable[[Trajectory], Awaitable[None]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Table:
    """What all groups of one rollout share."""

    update: int
    config: RolloutConfig
    chat: ChatFormat
    requests: Requests
    environments: Environments
    slots: asyncio.Semaphore
    progress: PlayListener
    on_trajectory: OnTrajectory | None


@dataclass(frozen=True, slots=True)
class _Opening:
    """The initial state, the first prompt, and a completion of it for every branch."""

    start: StepResult
    first: FirstPrompt
    transcript: Transcript
    completions: list[Completion]


@dataclass(slots=True)
class GroupPlay:
    """One group of one rollout. `key` is its game's id, made unique within the rollout.

    `ended` and `failures` hold each branch's end, whichever it was.
    """

    entry: GameEntry
    key: str
    table: Table
    ended: dict[int, Trajectory] = field(default_factory=dict)
    failures: dict[int, TrajectoryFailure] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _opening: _Opening | TrajectoryFailure | None = None

    @property
    def group_id(self) -> str:
        return f"{self.table.update}:{self.key}"

    async def branch(self, index: int) -> None:
        """Play one branch, in a slot that the caller took, and hand the trajectory on once the slot is free again."""
        table = self.table
        try:
            try:
                trajectory = await self._play(index)
            finally:
                table.slots.release()
            await self._hand_on(trajectory)
        except TrajectoryFailure as failure:
            self.failures[index] = failure
            table.progress.on_trajectory_dropped()
            logger.warning("dropped a trajectory: %s", failure)
        else:
            self.ended[index] = trajectory
            table.progress.on_trajectory_end(trajectory)

    async def _play(self, index: int) -> Trajectory:
        table = self.table
        branch = Branch(
            entry=self.entry,
            group_id=self.group_id,
            index=index,
            update=table.update,
            seed_key=self.key,
            config=table.config,
            chat=table.chat,
            requests=table.requests,
            progress=table.progress,
        )
        episode = await table.environments.open(self.entry, what=f"{self.entry.game_id}, branch {index}")
        try:
            start = await episode.reset()
            opening = await self._open(start)
            if start != opening.start:
                raise TrajectoryFailure(f"{self.entry.game_id}, branch {index}, began in another state than its group")
            return await branch.play(
                episode, start, opening.first, opening.transcript.fork(), opening.completions[index]
            )
        finally:
            await episode.close()

    async def _open(self, start: StepResult) -> _Opening:
        """The group's first request, sent by whichever branch is ready first, for all of them."""
        async with self._lock:
            if self._opening is None:
                try:
                    self._opening = await self._first_request(start)
                except TrajectoryFailure as failure:
                    self._opening = failure
        if isinstance(self._opening, TrajectoryFailure):
            raise self._opening
        return self._opening

    async def _first_request(self, start: StepResult) -> _Opening:
        from agentic_rl.dialogue import Transcript

        table, config = self.table, self.table.config
        first = FirstPrompt.of(start, config)
        transcript = Transcript(table.chat, system=first.system, user=first.user)
        prompt = transcript.prompt
        check_room(len(prompt), self.entry, config)
        seed = derive_seed(config.seed, update=table.update, game_id=self.key, branch=FIRST_REQUEST, turn=0)
        what = f"sampling {self.entry.game_id}, all branches, turn 1"
        completions = await table.requests.sample(prompt, config.group_size, seed=seed, what=what)
        return _Opening(start, first, transcript, completions)

    async def _hand_on(self, trajectory: Trajectory) -> None:
        if self.table.on_trajectory is None:
            return
        try:
            await self.table.on_trajectory(trajectory)
        except BackendError as error:
            what = f"{self.entry.game_id}, branch {trajectory.group_index}"
            raise TrajectoryFailure(f"what follows the end of {what} failed: {error}") from error
