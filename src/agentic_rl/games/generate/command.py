"""`agentic-rl games generate`: households as game files."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentic_rl.games.generate.difficulty import DEFAULT_DIFFICULTY, LEVELS
from agentic_rl.games.generate.entries import HOUSEHOLD_SPLITS


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `generate` to the sub-commands of `agentic-rl games`; `run` is set to what it does."""
    parser = subparsers.add_parser(
        "generate",
        help="write new households as game files",
        description="Write new household games in ALFWorld's file format, each solved, balanced over the task types. "
        "The same arguments give the same bytes. Needs the `alfworld` package, whose rules go into every file.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="gets json_2.1.1/<split>/<task>/…")
    parser.add_argument("--split", choices=HOUSEHOLD_SPLITS, default="train", help="default: train")
    parser.add_argument("--count", type=int, default=60, help="number of games (default: 60)")
    parser.add_argument(
        "--difficulty",
        type=int,
        choices=sorted(LEVELS),
        default=DEFAULT_DIFFICULTY,
        help=f"1 (five to seven receptacles) to 5 (the size of real games; default: {DEFAULT_DIFFICULTY})",
    )
    parser.add_argument("--seed", type=int, default=0, help="selects the instances (default: 0)")
    parser.set_defaults(run=generate)


def generate(arguments: argparse.Namespace) -> int:
    """Write the games and say where they are."""
    from agentic_rl.games.generate.write import write_households

    files = write_households(arguments.out, arguments.split, arguments.count, arguments.difficulty, arguments.seed)
    print(f"{len(files)} games in {arguments.out / 'json_2.1.1' / arguments.split}")
    return 0
