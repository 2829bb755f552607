"""Writes households as `game.tw-pddl` files: for TextWorld, for other tools, and to look at."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import tempfile
import weakref
from functools import cache
from pathlib import Path

from agentic_rl.errors import DatasetError, EnvironmentFailure, MissingExtraError
from agentic_rl.games.generate.entries import HouseholdEntry, household_games
from agentic_rl.games.interface import Episode
from agentic_rl.games.problem import TASK_PREFIX
from agentic_rl.games.textworld_engine import INSTALL

_UNKNOWN_GOAL = f"{TASK_PREFIX}UNKNOWN GOAL."


def write_households(out: Path, split: str, count: int, difficulty: int, seed: int) -> list[Path]:
    """Write `json_2.1.1/<split>/<task>/<trial>/game.tw-pddl` files under `out`: the same bytes for the same arguments.

    Every game is solved first; its shortest solution is stored as the walkthrough.

    Returns
    -------
    list of Path
        The files, in the order of `household_games`.

    Raises
    ------
    ConfigError
        See `household_games`.
    MissingExtraError
        The `alfworld` package, whose domain and grammar go into every file, is not installed.
    DatasetError
        `out` cannot be written to.
    """
    files = []
    for entry in household_games(split, count, difficulty, seed):
        file = Path(out) / "json_2.1.1" / split / entry.task / entry.trial / "game.tw-pddl"
        text = file_text(entry)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(".partial")
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, file)
        except OSError as error:
            raise DatasetError(f"{file}: cannot be written ({error.strerror})") from None
        files.append(file)
    return files


def file_text(entry: HouseholdEntry) -> str:
    """The whole game file of a household, solved."""
    from agentic_rl.games.expert import solve

    domain, grammar = _domain_and_grammar()
    solution = solve(entry.load())
    if solution is None:
        raise EnvironmentFailure(f"{entry.location}: no solution was found; please report this household")
    record = {
        "pddl_domain": domain,
        "grammar": grammar.replace(_UNKNOWN_GOAL, f"{TASK_PREFIX}{entry.household().task.sentence}"),
        "pddl_problem": entry.problem(),
        "solvable": True,
        "walkthrough": list(solution),
    }
    return json.dumps(record)


def open_written(entry: HouseholdEntry, engine: str) -> Episode:
    """Open a household with an engine that reads files; the file goes away with the episode."""
    from agentic_rl.games.engines import open_game

    folder = tempfile.TemporaryDirectory(prefix="household-")
    file = Path(folder.name) / "game.tw-pddl"
    file.write_text(file_text(entry), encoding="utf-8")
    episode = open_game(file, engine=engine)
    weakref.finalize(episode, folder.cleanup)
    return episode


@cache
def _domain_and_grammar() -> tuple[str, str]:
    """What stands in every public game file, made from what the installed `alfworld` ships.

    The package has moved on since those files were made, by a comment sign in the domain, an empty line, and the way
    the help text is written. Undoing this gives the very bytes of the public files, so all readers know the games.
    """
    spec = importlib.util.find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("game files carry ALFWorld's domain and grammar", hint=INSTALL)
    data = Path(spec.submodule_search_locations[0]) / "data"
    domain = (data / "alfred.pddl").read_text(encoding="utf-8")
    grammar = (data / "alfred.twl2").read_text(encoding="utf-8")
    domain = domain.replace(";(receptacleType ?r SinkType)", "(receptacleType ?r SinkType)")
    domain = re.sub(r"\)\n\n\)\n$", ")\n)\n", domain)
    head, _, help_ = grammar.partition('    feedback :: "#help.feedback#";\n')
    text = re.search(r'"rhs": "(.*)"', help_)
    if text is not None:
        grammar = f'{head}    feedback :: "{text[1].replace("\\n", "\n")}";\n}}\n'
    return domain, grammar
