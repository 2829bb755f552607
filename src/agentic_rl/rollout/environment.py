"""Episodes, opened and stepped where they do not hold up the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from agentic_rl.games.interface import Episode, GameEntry, StepResult
from agentic_rl.rollout.attempts import TrajectoryFailure, costs_one_trajectory, describe


class Environments:
    """Opens the episodes of one rollout.

    Opening is always done in a thread; resets and steps are, where the engine says that they block.

    Parameters
    ----------
    live
        How many episodes are played at once, at most.
    """

    def __init__(self, engine: str, *, live: int) -> None:
        self._engine = engine
        # Twice as many threads as episodes: one that hangs in a step can still be closed.
        self._threads = ThreadPoolExecutor(max_workers=2 * max(live, 1), thread_name_prefix="environment")

    async def open(self, entry: GameEntry, *, what: str) -> LiveEpisode:
        """A fresh episode of a game, not yet reset. `what` names it in error messages."""
        opening = self._threads.submit(entry.open, self._engine)
        try:
            episode = await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise
        except Exception as error:
            raise _failure(what, error) from error
        return LiveEpisode(episode, self._threads, what)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class LiveEpisode:
    """One episode that can be awaited. Whatever goes wrong in it is a `TrajectoryFailure`."""

    def __init__(self, episode: Episode, threads: ThreadPoolExecutor, what: str) -> None:
        self._episode = episode
        self._threads = threads
        self._what = what

    async def reset(self) -> StepResult:
        return await self._call(self._episode.reset)

    async def step(self, action: str) -> StepResult:
        return await self._call(lambda: self._episode.step(action))

    async def close(self) -> None:
        """Release the episode. What fails here can harm nobody any more."""
        with contextlib.suppress(Exception):
            if self._episode.blocking:
                await asyncio.wrap_future(self._threads.submit(self._episode.close))
            else:
                self._episode.close()

    async def _call(self, move: Callable[[], StepResult]) -> StepResult:
        try:
            return await asyncio.wrap_future(self._threads.submit(move)) if self._episode.blocking else move()
        except Exception as error:
            raise _failure(self._what, error) from error


def _failure(what: str, error: Exception) -> Exception:
    return (
        TrajectoryFailure(f"the environment of {what} failed: {describe(error)}")
        if costs_one_trajectory(error)
        else error
    )


def _close_unused(opening: Future[Episode]) -> None:
    """An episode that was still opening when the rollout was cancelled."""
    with contextlib.suppress(BaseException):
        opening.result().close()
