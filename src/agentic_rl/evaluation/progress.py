"""How far an evaluation has come: one bar on a terminal, ten lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self, TextIO

from agentic_rl.rollout.trajectory import Trajectory


class GameProgress:
    """Counts games as they end; a `PlayListener` of the rollout.

    Parameters
    ----------
    games
        Games of the whole evaluation.
    unit
        What is counted, where a game is played more than once.
    finished, won
        Games that an earlier process played, and won.
    stream
        Standard error if None.
    """

    def __init__(
        self, games: int, *, unit: str = "game", finished: int = 0, won: int = 0, stream: TextIO | None = None
    ) -> None:
        self._games, self._unit, self._finished, self._won = games, unit, finished, won
        self._turns = self._dropped = 0
        self._stream = stream or sys.stderr
        self._bar: Any = None
        if self._stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=games, initial=finished, unit=self._unit, file=self._stream, dynamic_ncols=True)

    def on_start(self, trajectories: int) -> None:
        pass

    def on_turn(self) -> None:
        self._turns += 1
        if self._bar is not None:
            self._bar.set_postfix(self._counts(), refresh=False)
            self._bar.update(0)

    def on_trajectory_end(self, trajectory: Trajectory) -> None:
        self._won += trajectory.won
        self._ended()

    def on_trajectory_dropped(self) -> None:
        self._dropped += 1
        self._ended()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ended(self) -> None:
        before, self._finished = self._finished, self._finished + 1
        if self._bar is not None:
            self._bar.set_postfix(self._counts(), refresh=False)
            self._bar.update(1)
        elif 10 * before // self._games != 10 * self._finished // self._games:
            counts = ", ".join(f"{count} {name}" for name, count in self._counts().items())
            self._stream.write(f"{self._finished} of {self._games} {self._unit}s: {counts}\n")
            self._stream.flush()

    def _counts(self) -> dict[str, int]:
        counts = {"won": self._won, "turns": self._turns}
        return counts | ({"failed": self._dropped} if self._dropped else {})
