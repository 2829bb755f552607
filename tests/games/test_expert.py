"""The expert's solutions win, and none is shorter."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rare_house import TASKS, problem_of, rare_game

from agentic_rl.games import Game, SimulatedEpisode, build_game, discover, expert_steps, parse_game, solve, solve_from

Texts = Callable[[Callable[[str], bool]], Iterator[tuple[str, str]]]
IDLE = ("look", "help", "inventory", "examine")


def steps_to_win(episode: SimulatedEpisode) -> float:
    solution = solve_from(episode)
    return float("inf") if solution is None else len(solution)


def assert_wins_at_the_end(game: Game, solution: tuple[str, ...]) -> None:
    episode = game.episode()
    result = episode.reset()
    for command in solution:
        assert command in result.admissible_actions
        assert not result.won
        result = episode.step(command)
    assert result.won


def assert_shortest_all_along_a_random_walk(game: Game, seed: int, steps: int) -> None:
    """No command brings the win nearer by more than one.

    Were that so in every state, and 0 left only where the game is won, no solution could be shorter than the expert's.
    """
    rng, episode = random.Random(seed), game.episode()
    result = episode.reset()
    for _ in range(steps):
        left = steps_to_win(episode)
        assert (left == 0) == result.won
        moves = [command for command in result.admissible_actions if not command.startswith(IDLE)]
        for command in moves:
            after = episode.copy()
            after.step(command)
            assert steps_to_win(after) >= left - 1, (game.name, episode.state, command)
        verb = rng.choice(sorted({command.split()[0] for command in moves}))
        result = episode.step(rng.choice([command for command in moves if command.split()[0] == verb]))


@pytest.mark.parametrize("kind", TASKS)
def test_no_solution_of_the_rare_house_is_shorter_from_wherever_one_stands(kind: str) -> None:
    assert_shortest_all_along_a_random_walk(rare_game(kind), seed=5, steps=12)


def test_no_solution_of_real_games_is_shorter_from_wherever_one_stands(sample_root: Path) -> None:
    for game in discover(sample_root, ["valid_unseen"]):
        assert_shortest_all_along_a_random_walk(game.load(), seed=1, steps=5)


@pytest.mark.parametrize("kind", TASKS)
def test_a_solution_wins_at_its_last_command(kind: str) -> None:
    solution = solve(rare_game(kind))
    assert solution is not None
    assert_wins_at_the_end(rare_game(kind), solution)


def test_the_sample_is_solved_in_no_more_steps_than_its_walkthroughs(sample_root: Path) -> None:
    for entry in discover(sample_root):
        game = entry.load()
        solution = solve(game)
        assert solution is not None
        assert_wins_at_the_end(game, solution)
        assert len(solution) <= len(game.walkthrough)
        assert expert_steps(entry) == len(solution)


@pytest.mark.slow
def test_every_game_is_solved_in_no_more_steps_than_its_walkthrough(game_texts: Texts) -> None:
    for name, text in game_texts(lambda _: True):
        game = parse_game(text, name)
        solution = solve(game)
        assert solution is not None
        assert len(solution) <= len(game.walkthrough), name
        assert_wins_at_the_end(game, solution)


def test_the_bound_is_kept() -> None:
    solution = solve(rare_game("heat"))
    assert solution is not None
    assert solve(rare_game("heat"), max_depth=len(solution)) == solution
    assert solve(rare_game("heat"), max_depth=len(solution) - 1) is None


@pytest.mark.parametrize(
    ("kind", "fact"),
    [
        ("put", r"\(canContain DeskType MugType\)"),
        ("heat", r"\(receptacleType \S+ MicrowaveType\)"),
        ("light", r"\(toggleable DeskLamp_bar_\d\)"),
        ("two", r"\(inReceptacle Spoon_bar_1 \S+\)"),
    ],
)
def test_a_game_that_cannot_be_won_has_no_solution(kind: str, fact: str) -> None:
    stays = (lambda match: match[0].replace("MicrowaveType", "CabinetType")) if kind == "heat" else ""
    problem, count = re.subn(fact, stays, problem_of(kind))
    assert count
    assert solve(build_game(problem, "Your task is to: fail.", kind)) is None


def test_a_won_game_needs_nothing_and_the_episode_is_left_alone() -> None:
    game = rare_game("put")
    episode = game.episode()
    for command in solve(game) or ():
        state = episode.state
        assert solve_from(episode) is not None
        assert episode.state is state
        episode.step(command)
    assert solve_from(episode) == ()


def test_chance_picks_among_equally_short_solutions() -> None:
    game = rare_game("light")
    found = {solve_from(game.episode(), rng=random.Random(seed)) for seed in range(20)}
    assert len(found) > 1
    assert {len(solution or ()) for solution in found} == {len(solve(game) or ())}
    assert solve(game) == solve(game)
