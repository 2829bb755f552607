"""How far a run has come: two nested bars on a terminal, one line an update elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from agentic_rl.rollout.trajectory import Trajectory

SHOWN = {"reward/mean": "reward", "reward/success_rate": "success"}
"""Metrics worth a glance, and what the bars call them."""


class PlayListener(Protocol):
    """What a rollout tells while it plays."""

    def on_start(self, trajectories: int) -> None: ...

    def on_turn(self) -> None: ...

    def on_trajectory_end(self, trajectory: Trajectory) -> None: ...

    def on_trajectory_dropped(self) -> None: ...


class Silence:
    """Tells nobody."""

    def on_start(self, trajectories: int) -> None:
        pass

    def on_turn(self) -> None:
        pass

    def on_trajectory_end(self, trajectory: Trajectory) -> None:
        pass

    def on_trajectory_dropped(self) -> None:
        pass


class RolloutProgress:
    """Updates of a run, and within them the trajectories at play, with the phase the update is in.

    Draws bars where `stream` is a terminal; writes one line at the end of each update where it is not. Lines for the
    user go through `write`, so that no bar cuts through them.

    Parameters
    ----------
    updates
        Updates of the whole run; None for a single rollout such as an evaluation, which has no outer bar.
    finished
        Updates that an earlier process did.
    stream
        Standard error if None.
    """

    def __init__(self, updates: int | None = None, *, finished: int = 0, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._draws = self._stream.isatty()
        self._updates = updates
        self._outer: Any = None
        self._inner: Any = None
        self._phase = ""
        self._began = time.monotonic()
        self._reset_counts()
        if updates is not None:
            self._outer = self._bar(total=updates, initial=finished, desc="updates", unit="update", position=0)

    def begin(self, update: int, phase: str) -> None:
        """An update begins."""
        self._began = time.monotonic()
        self._reset_counts()
        self.phase(phase)

    def phase(self, name: str) -> None:
        """What is being done now: `rollout`, `update`, `checkpoint`, …"""
        self._phase = name
        if self._outer is not None:
            self._outer.set_description(f"updates ({name})")
        if self._inner is not None:
            self._inner.set_description(name)

    def end(self, update: int, metrics: Mapping[str, float]) -> None:
        """An update is done; of its metrics a few are shown."""
        self._close_inner()
        shown = {name: f"{metrics[key]:.3g}" for key, name in SHOWN.items() if key in metrics}
        if self._outer is not None:
            self._outer.set_postfix(shown, refresh=False)
            self._outer.update(update - self._outer.n)
        if not self._draws:
            self._stream.write(self._line(update, shown))
            self._stream.flush()

    def write(self, line: str) -> None:
        """Print one line on standard output, above the bars if there are any."""
        if self._draws:
            from tqdm import tqdm

            tqdm.write(line, file=sys.stdout)
        else:
            print(line, flush=True)

    def on_start(self, trajectories: int) -> None:
        self._close_inner()
        self._reset_counts()
        position = 0 if self._outer is None else 1
        description = self._phase or "trajectories"
        self._inner = self._bar(total=trajectories, desc=description, unit="trajectory", position=position, leave=False)

    def on_turn(self) -> None:
        self._turns += 1
        self._count(0)

    def on_trajectory_end(self, trajectory: Trajectory) -> None:
        self._ended += 1
        self._won += trajectory.won
        self._count(1)

    def on_trajectory_dropped(self) -> None:
        self._dropped += 1
        self._count(1)

    def close(self) -> None:
        """Take the bars away. Harmless when called twice."""
        self._close_inner()
        if self._outer is not None:
            self._outer.close()
            self._outer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reset_counts(self) -> None:
        self._ended = self._won = self._dropped = self._turns = 0

    def _count(self, trajectories: int) -> None:
        if self._inner is not None:
            counts = {"turns": self._turns, "won": self._won} | ({"dropped": self._dropped} if self._dropped else {})
            self._inner.set_postfix(counts, refresh=False)
            self._inner.update(trajectories)

    def _line(self, update: int, shown: Mapping[str, str]) -> str:
        parts = [f"{self._ended} trajectories", f"{self._turns} turns"]
        parts += [f"{self._dropped} dropped"] * (self._dropped > 0)
        parts += [f"{name} {value}" for name, value in shown.items()]
        parts.append(f"{time.monotonic() - self._began:.1f} s")
        return f"update {update}{f'/{self._updates}' if self._updates else ''}: {', '.join(parts)}\n"

    def _bar(self, **options: Any) -> Any:
        if not self._draws:
            return None
        from tqdm import tqdm

        return tqdm(file=self._stream, dynamic_ncols=True, **options)

    def _close_inner(self) -> None:
        if self._inner is not None:
            self._inner.close()
            self._inner = None
