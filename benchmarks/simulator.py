"""How much faster the simulator is than TextWorld, both in this one process, on the same games and commands.

    uv run --extra alfworld python benchmarks/simulator.py DATA_ROOT [--games N] [--steps N] [--all]

Times are CPU times of this process, so that other work on the machine weighs little; each ratio is printed beside the
target of the issue "Simulator". `--all` also loads every game under DATA_ROOT and replays its walkthrough.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentic_rl.games import Game, SimulatedEpisode, discover, load_game
from agentic_rl.games.check import random_policy, spread
from agentic_rl.games.textworld_child import start as start_textworld

REPEATS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_root", type=Path)
    parser.add_argument("--games", type=int, default=6)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    entries = discover(arguments.data_root)
    paths = [entry.path for entry in spread(entries, arguments.games, seed=0)]
    scripts = [_script(load_game(path), arguments.steps) for path in paths]

    ours = {"load and reset": 0.0, "reset": 0.0, "step": 0.0}
    theirs = dict(ours)
    for path, script in zip(paths, scripts, strict=True):
        environment = _textworld(path, script, theirs)
        _simulator(path, script, ours)
        del environment
    steps = sum(map(len, scripts))
    print(f"{len(paths)} games, {steps} random steps")
    print(f"{'':16}{'TextWorld':>12}{'simulator':>12}{'ratio':>10}{'target':>10}")
    for name, target in (("step", 10_000), ("load and reset", 800), ("reset", 50_000)):
        count = steps if name == "step" else len(paths)
        slow, fast = theirs[name] / count, ours[name] / count
        print(f"{name:16}{1e3 * slow:9.1f} ms{1e6 * fast:9.1f} µs{slow / fast:10,.0f}{target:10,}")
    _memory(paths)
    if arguments.all:
        _everything(arguments.data_root)


def _script(game: Game, steps: int) -> list[str]:
    """Random commands, one in ten of them garbage."""
    episode = game.episode()
    choose = random_policy(random.Random(game.name), steps)
    result, commands = episode.reset(), []
    while (command := choose(result)) is not None:
        commands.append(command)
        result = episode.step(command)
    return commands


def _timed[T](total: dict[str, float], name: str, work: Callable[[], T], repeats: int = 1) -> T:
    start = time.process_time()
    for _ in range(repeats):
        outcome = work()
    total[name] += (time.process_time() - start) / repeats
    return outcome


def _textworld(path: Path, script: Sequence[str], total: dict[str, float]) -> Any:
    def load_and_reset() -> Any:
        environment = start_textworld(str(path))
        environment.reset()
        return environment

    environment = _timed(total, "load and reset", load_and_reset)
    _timed(total, "reset", environment.reset)
    _timed(total, "step", lambda: [environment.step(command) for command in script])
    return environment


def _simulator(path: Path, script: Sequence[str], total: dict[str, float]) -> None:
    _timed(total, "load and reset", lambda: load_game(path).episode().reset(), REPEATS)
    episode = load_game(path).episode()
    _timed(total, "reset", episode.reset, 1000)

    def play() -> None:
        episode.reset()
        for command in script:
            episode.step(command)

    _timed(total, "step", play, REPEATS)


def _memory(paths: Sequence[Path]) -> None:
    """What a game and an episode of it hold, the Python way: what `tracemalloc` sees allocated for it."""
    load_game(paths[0])
    scripts = [_script(load_game(path), 50) for path in paths]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    games = [load_game(path) for path in paths for _ in range(REPEATS)]
    loaded = tracemalloc.get_traced_memory()[0]
    episodes: list[SimulatedEpisode] = []
    for number, game in enumerate(games):
        episode = game.episode()
        for command in scripts[number // REPEATS]:
            episode.step(command)
        episodes.append(episode)
    played = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"memory of a loaded game              {(loaded - before) / len(games) / 1e3:6.1f} kB   (at most 60)")
    print(f"memory of an episode after 50 steps  {(played - loaded) / len(games) / 1e3:6.1f} kB   (at most 12)")


def _everything(data_root: Path) -> None:
    paths = sorted(data_root.glob("**/game.tw-pddl"))
    start, cpu, steps = time.perf_counter(), time.process_time(), 0
    for path in paths:
        game = load_game(path)
        episode = game.episode()
        for command in game.walkthrough:
            steps += 1
            won = episode.step(command).won
        assert won, path
    took = f"{time.perf_counter() - start:.1f} s ({time.process_time() - cpu:.1f} s of CPU)"
    print(f"{len(paths):,} games loaded, {steps:,} steps of their walkthroughs replayed in {took}   (at most 30 s)")


if __name__ == "__main__":
    sys.exit(main())
