"""The simulator says what TextWorld says, to the last character."""

from __future__ import annotations

import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rare_house import TASKS, rare_game, recorded_plays

from agentic_rl.games import Game, StepResult, parse_game
from agentic_rl.games.probes import probe_scripts

Texts = Callable[[Callable[[str], bool]], Iterator[tuple[str, str]]]


def in_tenth(name: str) -> bool:
    return zlib.crc32(name.encode()) % 10 == 0


def replay_walkthrough(game: Game) -> None:
    episode = game.episode()
    result = episode.reset()
    for command in game.walkthrough:
        assert not result.won, f"{game.name} is won before {command!r}"
        assert command in result.admissible_actions, f"{game.name}: {command!r} is not admissible"
        result = episode.step(command)
    assert result.won, f"{game.name} is not won by its walkthrough"


def test_every_recorded_trace_of_the_real_games(golden: Path, game_texts: Texts) -> None:
    traces = [
        json.loads(line)
        for line in lzma.decompress((golden / "alfworld_transcripts.jsonl.xz").read_bytes()).splitlines()
    ]
    names = {trace["game"] for trace in traces}
    games = {name: parse_game(text, name) for name, text in game_texts(names.__contains__)}
    assert games.keys() == names
    compared = 0
    for trace in traces:
        episode = games[trace["game"]].episode()
        result, first = episode.reset(), trace["initial"]
        assert (result.observation, list(result.admissible_actions)) == (first["observation"], first["admissible"])
        for step in trace["steps"]:
            result = episode.step(step["action"])
            shown = result.observation, list(result.admissible_actions), result.won, result.done
            recorded = step["observation"], step["admissible"], step["won"], step["done"]
            assert shown == recorded, f"{trace['game']}: {step['action']!r}"
            assert result.score == float(step["won"])
            compared += 1
    assert compared == 7_603


def test_a_tenth_of_all_walkthroughs_wins_at_the_last_command(game_texts: Texts) -> None:
    games = [parse_game(text, name) for name, text in game_texts(in_tenth)]
    assert len(games) > 350
    for game in games:
        replay_walkthrough(game)


@pytest.mark.slow
def test_all_walkthroughs_win_at_the_last_command(game_texts: Texts) -> None:
    count = 0
    for name, text in game_texts(lambda _: True):
        replay_walkthrough(parse_game(text, name))
        count += 1
    assert count == 4_027


@pytest.mark.parametrize("kind", TASKS)
def test_the_rare_house_plays_as_textworld_recorded_it(kind: str) -> None:
    game = rare_game(kind)
    plays = [play for play in recorded_plays() if play["kind"] == kind]
    assert {play["play"] for play in plays} >= probe_scripts(game).keys(), (
        "a probe is not recorded: see record_rare_house.py"
    )
    for play in plays:
        episode = game.episode()
        for command, observation, admissible, won in play["shown"]:
            result = episode.reset() if command is None else episode.step(command)
            assert result == StepResult(observation, tuple(admissible), won, won, float(won)), (play["play"], command)


def test_the_rare_house_meets_every_rare_text() -> None:
    """The record is worth replaying only while it holds what random play misses."""
    told = "\n".join(shown[1] for play in recorded_plays() for shown in play["shown"])
    for text in (
        "This is a hot and clean sliced ",
        "This is a cool and clean sliced ",
        "This is a clean sliced ",
        "This is a hot sliced ",
        "This is a cool sliced ",
        "This is a sliced ",
        "This is a hot and clean ",
        "This is a cool and clean ",
        "This is a hot apple ",
        "This is a cold ",
        "This is a clean ",
        "This is a normal bowl 1. In it, you see a egg 1, and a spoon 1.",
        "There's nothing special about ",
        "You turn on the ",
        "You sliced the potato 1 ",
        "Next to it, you see a ",
    ):
        assert text in told, text
    assert {play["kind"] for play in recorded_plays() if any(shown[3] for shown in play["shown"])} == set(TASKS)
