"""`agentic-rl`: one command for what is neither training nor evaluation. Each sub-command lives in its own room."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from agentic_rl.config import run_main
from agentic_rl.errors import ConfigError

COMMANDS = {
    "games": "agentic_rl.games.command",
    "serve": "agentic_rl.serving.command",
    "teacher": "agentic_rl.evaluation.teacher.command",
}
"""Name to the module that offers `add_parser(subparsers)`, which sets `run`: a function of the parsed arguments."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint=f"`{self.prog} --help` lists every flag.")


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The command line; only the room that is asked for is imported."""
    parser = _Parser(prog="agentic-rl", description="Games, a model server, and what else goes with teaching agents.")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in [argv[0]] if argv and argv[0] in COMMANDS else COMMANDS:
        import_module(COMMANDS[name]).add_parser(subparsers)
    return parser


def run(argv: Sequence[str] | None) -> int | None:
    """Carry out one command line."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = build_parser(argv).parse_args(argv)
    code: int | None = arguments.run(arguments)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point: 0 for success, 1 for a check that failed, 2 for an error that the user can mend."""
    return run_main(run, argv)


if __name__ == "__main__":
    sys.exit(main())
