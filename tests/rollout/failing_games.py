"""Games whose episodes fail where a test wants them to, and that know whether every episode was closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agentic_rl.errors import EnvironmentFailure
from agentic_rl.games.interface import Episode, GameEntry, StepResult


@dataclass
class FailingGame:
    """A game that works but for what `fails(episode number, step)` says; step 0 is the reset, -1 the opening.

    `blocking` and `step_s` make its episodes slow ones, which a runner must step in threads. Openings wait for `door`.
    """

    entry: GameEntry
    fails: Callable[[int, int], bool] = lambda episode, step: False
    blocking: bool = False
    step_s: float = 0.0
    door: threading.Event | None = None
    error: Exception = field(default_factory=lambda: EnvironmentFailure("the environment's process died"))
    opening: int = 0
    opened: int = 0
    closed: int = 0
    stepping_threads: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def game_id(self) -> str:
        return self.entry.game_id

    @property
    def split(self) -> str:
        return self.entry.split

    @property
    def task_type(self) -> str:
        return self.entry.task_type

    @property
    def location(self) -> str:
        return self.entry.location

    def open(self, engine: str = "simulator") -> Episode:
        if engine == "simulator":  # the runner's look at first prompts, before anything is sampled
            return self.entry.open()
        with self._lock:
            self.opening += 1
        if self.door is not None:
            self.door.wait()
        with self._lock:
            self.opened += 1
            episode = FailingEpisode(self, self.opened, self.entry.open(), self.blocking)
        if self.fails(episode.number, -1):
            self.closed += 1
            raise self.error
        return episode


@dataclass
class FailingEpisode:
    game: FailingGame
    number: int
    episode: Episode
    blocking: bool
    steps: int = 0

    def reset(self) -> StepResult:
        return self._move(self.episode.reset)

    def step(self, action: str) -> StepResult:
        self.steps += 1
        return self._move(lambda: self.episode.step(action))

    def close(self) -> None:
        with self.game._lock:
            self.game.closed += 1

    def _move(self, move: Callable[[], StepResult]) -> StepResult:
        time.sleep(self.game.step_s)
        self.game.stepping_threads.add(threading.current_thread().name)
        if self.game.fails(self.number, self.steps):
            raise self.game.error
        return move()
