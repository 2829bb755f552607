"""`agentic-rl games`: look at games, play one by hand, check the simulator against TextWorld, generate households."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentic_rl.errors import ConfigError

if TYPE_CHECKING:
    from agentic_rl.games.interface import GameEntry

DATA_ROOTS = (Path("08-alfworld/datasets/alfworld"), Path("09-AgentOPSD/datasets/alfworld"))
"""Where the two recipes keep the dataset; the first that exists is the default here."""

SPLITS = ("train", "valid_seen", "valid_unseen")

type Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Hang `games` and its own sub-commands into the command line."""
    from agentic_rl.games.generate.command import add_parser as add_generate

    games = subparsers.add_parser("games", help="list, show, play, check and generate games", description=__doc__)
    inner = games.add_subparsers(metavar="COMMAND", required=True)

    listing = _add(inner, "list", list_games, "count the games by split and task type")
    _add_source(listing)
    listing.add_argument("--ids", action="store_true", help="print every game's number and id as well")

    showing = _add(inner, "show", show_game, "one game's receptacles, objects, goal and shortest solution")
    _add_game(showing)
    _add_source(showing)

    playing = _add(inner, "play", play_game, "play a game by hand: Tab completes, `undo` takes a command back")
    _add_game(playing)
    _add_source(playing)
    playing.add_argument("--engine", default="simulator", choices=["simulator", "textworld"], help="who runs the game")

    checking = _add(inner, "check", check_games, "play your games on both engines side by side and compare every text")
    _add_data(checking)
    checking.add_argument("--games", type=_positive, default=6, metavar="N", help="how many (default: 6)")
    checking.add_argument("--steps", type=_positive, default=50, metavar="N", help="random steps a game (default: 50)")
    checking.add_argument("--seed", type=int, default=0, metavar="S", help="picks games and commands (default: 0)")

    add_generate(inner)


def list_games(arguments: argparse.Namespace) -> int:
    """Print a table of counts, and the ids where asked for."""
    from agentic_rl.games.dataset import count_by_split_and_type
    from agentic_rl.games.interface import TASK_TYPES

    entries = _entries(arguments)
    counts = count_by_split_and_type(entries)
    print(f"{'':<32}" + "".join(f"{split:>14}" for split in counts) + f"{'all':>9}")
    for task in TASK_TYPES:
        row = [by_type.get(task, 0) for by_type in counts.values()]
        print(f"{task:<32}" + "".join(f"{count:>14,}" for count in row) + f"{sum(row):>9,}")
    totals = [sum(by_type.values()) for by_type in counts.values()]
    print(f"{'all':<32}" + "".join(f"{count:>14,}" for count in totals) + f"{sum(totals):>9,}")
    if arguments.ids:
        for number, entry in enumerate(entries):
            print(f"{number:>5}  {entry.game_id}")
    return 0


def show_game(arguments: argparse.Namespace) -> int:
    """Print what one game holds."""
    from agentic_rl.games.show import description

    print(description(_entry(arguments)))
    return 0


def play_game(arguments: argparse.Namespace) -> int:
    """Play in the terminal."""
    from agentic_rl.games.play import play

    play(_entry(arguments), arguments.engine)
    return 0


def check_games(arguments: argparse.Namespace) -> int:
    """Compare the engines; exit code 1 if they differ anywhere."""
    from agentic_rl.games.check import check
    from agentic_rl.games.dataset import discover

    entries = discover(_data_root(arguments), arguments.split or SPLITS)
    return check(entries, games=arguments.games, steps=arguments.steps, seed=arguments.seed)


def _add(subparsers: Subparsers, name: str, run: Callable[..., int], help: str) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    parser.set_defaults(run=run)
    return parser


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-root",
        type=Path,
        metavar="DIR",
        help="the folder above json_2.1.1, json_2.1.1 itself, or one split (default: the recipes' own folder)",
    )
    parser.add_argument("--split", action="append", metavar="SPLIT", help="repeatable (default: all three)")


def _add_source(parser: argparse.ArgumentParser) -> None:
    _add_data(parser)
    parser.add_argument(
        "--games", default="alfworld", metavar="SOURCE", help="alfworld (default), or household[:1-5]: generated games"
    )


def _add_game(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("game", metavar="GAME", help="its number or id in `list --ids`, or the path of its file")


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _data_root(arguments: argparse.Namespace) -> Path:
    if arguments.data_root is not None:
        return Path(arguments.data_root)
    return next((root for root in DATA_ROOTS if root.is_dir()), DATA_ROOTS[0])


def _entries(arguments: argparse.Namespace) -> Sequence[GameEntry]:
    from agentic_rl.games.source import load_entries

    return load_entries(arguments.games, _data_root(arguments), arguments.split or SPLITS)


def _entry(arguments: argparse.Namespace) -> GameEntry:
    """The game that is meant by a number, an id or a path."""
    from agentic_rl.games.dataset import GAME_FILE, game_at

    wanted: str = arguments.game
    path = Path(wanted)
    if path.name == GAME_FILE or (path / GAME_FILE).is_file():
        return game_at(path if path.name == GAME_FILE else path / GAME_FILE)
    entries = _entries(arguments)
    if wanted.isdecimal() and int(wanted) < len(entries):
        return entries[int(wanted)]
    for entry in entries:
        if entry.game_id == wanted:
            return entry
    raise ConfigError(
        f"{wanted!r} is none of the {len(entries):,} games", hint="`agentic-rl games list --ids` names them."
    )
