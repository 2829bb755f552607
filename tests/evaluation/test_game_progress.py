"""How far an evaluation has come: a bar where someone looks, ten lines where a log is kept."""

from __future__ import annotations

import asyncio
import io

from walkthrough import Walkthrough

from agentic_rl.dialogue import ChatFormat
from agentic_rl.evaluation import evaluate
from agentic_rl.evaluation.progress import GameProgress
from agentic_rl.games.interface import GameEntry
from agentic_rl.rollout import RolloutConfig


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, chat: ChatFormat, games: list[GameEntry], config: RolloutConfig, finished: int) -> str:
    sampler = Walkthrough(chat, games, lost=[games[0].game_id])
    with GameProgress(finished + len(games), finished=finished, won=finished, stream=stream) as progress:
        asyncio.run(
            evaluate(games, sampler, chat, config, reward=lambda trajectory: 0.0, progress=progress, expert=False)
        )
    return stream.getvalue()


def test_a_log_gets_at_most_ten_lines_and_the_last_has_it_all(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    lines = shown(io.StringIO(), chat, games, config, finished=94).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("100 of 100 games: 99 won, ")


def test_a_terminal_gets_one_bar_that_begins_where_an_earlier_process_stopped(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    bar = shown(Terminal(), chat, games, config, finished=4)
    assert " 4/10 " in bar.split("\r")[1]
    assert " 10/10 " in bar.split("\r")[-1]
    assert "won=9" in bar.split("\r")[-1]
    assert "\n" not in bar.rstrip("\n")
