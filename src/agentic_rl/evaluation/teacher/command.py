"""`agentic-rl teacher`: play, let the teacher read, ask the expert, and print what the teacher's word is worth."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentic_rl.config import add_flags, build_config, given_flags
from agentic_rl.errors import ConfigError
from agentic_rl.evaluation.teacher.config import TeacherConfig

if TYPE_CHECKING:
    from agentic_rl.evaluation.opening import OpenSampler
    from agentic_rl.evaluation.teacher.score import Scored
    from agentic_rl.games.interface import GameEntry
    from agentic_rl.skills import SkillBook

DESCRIPTION = """\
Does the self-teacher of 09-AgentOPSD know good turns from bad ones? The model plays; told the skills it reads its own
trajectories again, exactly as in training; and the expert says which turns brought the end nearer. Printed is how
often such a turn has more evidence than another one (the area under the ROC curve; 0.5 is chance), with the skills
and, as a check, with none. Nothing is trained."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hang `teacher` into the command line."""
    parser = subparsers.add_parser(
        "teacher",
        help="whether the self-teacher's evidence tells good turns from bad ones",
        description=DESCRIPTION,
        allow_abbrev=False,
    )
    add_flags(parser, TeacherConfig)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; nothing is loaded or sampled before games and skills are known to be there."""
    config = build_config(TeacherConfig, given_flags(TeacherConfig, arguments))

    from agentic_rl.evaluation.opening import open_player
    from agentic_rl.evaluation.teacher.report import as_document, as_text
    from agentic_rl.evaluation.teacher.worth import turns_of, worth
    from agentic_rl.skills import SkillBook, builtin_skills_dir

    games = choose(config)
    skills = SkillBook.load(config.skills_dir or builtin_skills_dir())
    # Loading and computing stay outside of the event loop, which would keep Ctrl-C waiting for them.
    sampler = open_player(config, group_size=config.group_size)
    scored = asyncio.run(_play(config, games, skills, sampler))
    print(f"asking the expert about {sum(len(one.trajectory.turns) for one in scored)} turns", file=sys.stderr)
    turns = turns_of(scored)
    told = worth(turns, lambda turn: turn.with_skills, seed=config.seed)
    untold = worth(turns, lambda turn: turn.without, seed=config.seed)
    if config.json is not None:
        _write(config.json, as_document(config, sampler.id, scored, turns, told, untold))
    print(as_text(config, sampler.id, scored, turns, told, untold))
    return 0


def choose(config: TeacherConfig) -> Sequence[GameEntry]:
    """The games, the same ones that an evaluation with this seed and this limit plays."""
    from agentic_rl.games.source import load_entries
    from agentic_rl.results import choose_games

    every = load_entries(config.source, config.data_root or Path(), [config.split])
    games = choose_games(every, limit_per_split=config.count, seed=config.seed)
    if len(games) < config.count:
        raise ConfigError(f"--count is {config.count}, and the split {config.split} has {len(games)} games")
    return games


async def _play(
    config: TeacherConfig, games: Sequence[GameEntry], skills: SkillBook, sampler: OpenSampler
) -> list[Scored]:
    """Play, score, and close the sampler whatever happens."""
    from agentic_rl.dialogue import ChatFormat
    from agentic_rl.evaluation.progress import GameProgress
    from agentic_rl.evaluation.teacher.score import play_and_score

    try:
        chat = ChatFormat.from_tokenizer(sampler.tokenizer)
        episodes = len(games) * config.group_size
        print(f"playing {episodes} episodes; the teacher reads them as they end", file=sys.stderr)
        with GameProgress(episodes, unit="episode") as progress:
            return await play_and_score(games, sampler, chat, config, skills, progress=progress)
    finally:
        await sampler.aclose()


def _write(file: Path, document: str) -> None:
    try:
        file.write_text(document, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--json {file} cannot be written: {error.strerror}") from error
