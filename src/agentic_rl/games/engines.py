"""The two engines behind one door: the exact simulator, and TextWorld as the reference."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from agentic_rl.errors import ConfigError
from agentic_rl.games.interface import Episode
from agentic_rl.games.problem import TASK_PREFIX, UnknownGameError
from agentic_rl.games.simulator import load_game

ENGINES = ("simulator", "textworld")


def open_game(path: str | Path, engine: str = "simulator") -> Episode:
    """Open one game file for one play.

    A sound file that the simulator does not know is played by TextWorld instead, with one line on stderr that says so.

    Raises
    ------
    GameFileError
        The file is damaged.
    MissingExtraError
        TextWorld is needed and not installed.
    """
    if engine == "simulator":
        try:
            return load_game(path).episode()
        except UnknownGameError as unknown:
            episode = _textworld(path)
            _say_once(f"{unknown}; played by TextWorld instead of the simulator")
            return episode
    if engine == "textworld":
        return _textworld(path)
    raise ConfigError(f"unknown engine {engine!r}", hint=f"Choose one of {', '.join(ENGINES)}.")


@cache
def _say_once(line: str) -> None:
    """A game is opened again and again; its line is wanted once."""
    print(line, file=sys.stderr)


def _textworld(path: str | Path) -> Episode:
    from agentic_rl.games.textworld_engine import TextWorldEpisode

    return TextWorldEpisode(path)


def task_of(observation: str) -> str:
    """The task named in an opening observation: what follows `Your task is to: `, to the end of its line."""
    return observation.partition(TASK_PREFIX)[2].partition("\n")[0].strip()
