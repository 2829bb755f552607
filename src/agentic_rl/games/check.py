"""The simulator against TextWorld: the same commands on both, every text and list compared."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentic_rl.games.dataset import GameFile, shuffled
from agentic_rl.games.interface import TASK_TYPES, StepResult
from agentic_rl.games.probes import probe_scripts
from agentic_rl.games.simulator import load_game
from agentic_rl.games.textworld_engine import TextWorldEpisode

GARBAGE = (
    "",
    "dance",
    "go to nowhere 1",
    "take  lamp 1 from  desk 1",
    "GO TO DESK 1",
    "put x in y",
    "look around",
    "🙂",
)
GARBAGE_SHARE = 0.1

type Policy = Callable[[StepResult], str | None]
"""Chooses the next command from what the game shows; None ends the play."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One place where the engines differ."""

    path: Path
    commands: tuple[str, ...]
    simulator: StepResult
    textworld: StepResult

    def __str__(self) -> str:
        told = [f"{self.path}", f"  after {' | '.join(self.commands) or 'reset'}"]
        for name in ("observation", "admissible_actions", "won", "done"):
            ours, theirs = getattr(self.simulator, name), getattr(self.textworld, name)
            if name == "admissible_actions":
                ours, theirs = sorted({*ours} - {*theirs}) or ours, sorted({*theirs} - {*ours}) or theirs
            if ours != theirs:
                told += [f"  {name}: simulator {ours!r}", f"  {' ' * len(name)}  TextWorld {theirs!r}"]
        return "\n".join(told)


@dataclass(slots=True)
class Comparison:
    """What playing side by side has shown so far, and what it cost."""

    resets: int = 0
    steps: int = 0
    simulator_s: float = 0.0
    textworld_s: float = 0.0
    mismatches: list[Mismatch] = field(default_factory=list)


class SideBySide:
    """Both engines on one game after another; one TextWorld process serves them all."""

    def __init__(self) -> None:
        self.comparison = Comparison()
        self._textworld: TextWorldEpisode | None = None

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, *_: object) -> None:
        if self._textworld is not None:
            self._textworld.close()

    def play(self, path: Path, choose: Policy) -> None:
        """Play one game from its start until the policy has had enough."""
        if self._textworld is None:
            self._textworld = TextWorldEpisode(path)
        elif self._textworld.path != path:
            self._textworld.load(path)
        simulator = load_game(path).episode()
        found, played = self.comparison, list[str]()
        found.resets += 1
        theirs = self._compare(path, played, simulator.reset(), self._textworld.reset())
        while (command := choose(theirs)) is not None:
            played.append(command)
            found.steps += 1
            start = time.perf_counter()
            theirs = self._textworld.step(command)
            found.textworld_s += time.perf_counter() - start
            self._compare(path, played, simulator.step(command), theirs)
        # Timed in one go: a single step between two of TextWorld's would mostly measure cold caches.
        simulator.reset()
        start = time.perf_counter()
        for command in played:
            simulator.step(command)
        found.simulator_s += time.perf_counter() - start

    def _compare(self, path: Path, played: Sequence[str], ours: StepResult, theirs: StepResult) -> StepResult:
        if ours != theirs:
            self.comparison.mismatches.append(Mismatch(path, tuple(played), ours, theirs))
        return theirs


def scripted(commands: Iterable[str], then: Policy | None = None) -> Policy:
    """Play what is written, and then as another policy does."""
    script = iter(commands)

    def choose(result: StepResult) -> str | None:
        command = next(script, None)
        return then(result) if command is None and then is not None else command

    return choose


def random_policy(rng: random.Random, steps: int) -> Policy:
    """Choose the verb first, so that rare verbs are met; one command in ten is garbage."""
    left = iter(range(steps))

    def choose(result: StepResult) -> str | None:
        if next(left, None) is None:
            return None
        if rng.random() < GARBAGE_SHARE:
            return rng.choice(GARBAGE)
        verb = rng.choice(sorted({command.partition(" ")[0] for command in result.admissible_actions}))
        return rng.choice([command for command in result.admissible_actions if command.partition(" ")[0] == verb])

    return choose


def spread(entries: Sequence[GameFile], games: int, seed: int) -> list[GameFile]:
    """Some games, spread evenly over the task types."""
    by_type: dict[str, list[GameFile]] = {task: [] for task in TASK_TYPES}
    for entry in shuffled(entries, seed):
        by_type[entry.task_type].append(entry)
    rounds = [pile[number] for number in range(len(entries)) for pile in by_type.values() if number < len(pile)]
    return rounds[:games]


def check(entries: Sequence[GameFile], *, games: int, steps: int, seed: int) -> int:
    """Compare the engines on some games and print what was found; 1 if they differ, else 0."""
    chosen = spread(entries, games, seed)
    with SideBySide() as side_by_side:
        found = side_by_side.comparison
        for number, entry in enumerate(chosen):
            known = len(found.mismatches)
            side_by_side.play(entry.path, random_policy(random.Random(f"{seed} {entry.game_id}"), steps))
            for script in probe_scripts(load_game(entry.path)).values():
                side_by_side.play(entry.path, scripted(script))
            for mismatch in found.mismatches[known : known + 3]:
                print(mismatch)
            print(
                f"[{number + 1}/{len(chosen)}] {entry.game_id}: {len(found.mismatches) - known} mismatches", flush=True
            )
    print(f"games       {len(chosen):,}")
    print(f"steps       {found.steps:,} and {found.resets:,} resets")
    print(f"mismatches  {len(found.mismatches):,}")
    if found.steps:
        theirs, ours = found.textworld_s / found.steps, found.simulator_s / found.steps
        print(f"a step      TextWorld {1e3 * theirs:.1f} ms, simulator {1e6 * ours:.1f} µs: {theirs / ours:,.0f} times")
    return 1 if found.mismatches else 0
