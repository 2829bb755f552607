"""Turns are labelled by what they did to the expert's remaining distance."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from walkthrough import Walkthrough

from agentic_rl.dialogue import ChatFormat
from agentic_rl.evaluation.teacher.distance import LOST, DistanceMeter, Step
from agentic_rl.games import SimulatedEpisode, solve_from
from agentic_rl.games.generate import household_games
from agentic_rl.games.interface import GameEntry
from agentic_rl.rollout import RolloutConfig, Trajectory, run_groups


def trajectories(player: Walkthrough, config: RolloutConfig) -> list[Trajectory]:
    rollout = asyncio.run(run_groups(player.games, player, player.chat, config, update=0))
    return [trajectory for group in rollout.groups for trajectory in group.trajectories]


def along(chat: ChatFormat, game: GameEntry, actions: Sequence[str], config: RolloutConfig) -> Trajectory:
    player = Walkthrough(chat, [game], plans={game.game_id: actions})
    (trajectory,) = trajectories(player, replace(config, max_turns=len(actions)))
    return trajectory


def random_walk(game: GameEntry, steps: int, seed: int) -> list[str]:
    episode, rng, actions = game.open(), random.Random(seed), []
    result = episode.reset()
    while len(actions) < steps:
        actions.append(rng.choice(result.admissible_actions))
        result = episode.step(actions[-1])
        if result.won:
            break
    return actions


def test_every_turn_of_the_experts_walk_is_good(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    for trajectory in trajectories(Walkthrough(chat, games), config):
        steps = DistanceMeter(trajectory.game).steps(trajectory)
        length = len(trajectory.turns)
        assert steps == [Step(length - done, length - done - 1) for done in range(length)]
        assert all(step.falls and step.known for step in steps)


def test_looking_around_is_not_good(chat: ChatFormat, games: list[GameEntry], config: RolloutConfig) -> None:
    player = Walkthrough(chat, games, lost=[game.game_id for game in games])
    for trajectory in trajectories(player, replace(config, max_turns=3)):
        steps = DistanceMeter(trajectory.game).steps(trajectory)
        assert len(steps) == 3
        assert all(step.known and step.before == step.after > 0 and not step.falls for step in steps)


def test_what_is_no_call_or_not_available_is_not_good(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    player = Walkthrough(chat, games, stumbles=[game.game_id for game in games])
    for trajectory in trajectories(player, config):
        malformed, unavailable, *rest = DistanceMeter(trajectory.game).steps(trajectory)
        assert not malformed.falls
        assert not unavailable.falls
        assert malformed.before == unavailable.after == len(rest)
        assert all(step.falls for step in rest)


def test_distances_are_the_experts_wherever_a_trajectory_leads(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    """Two trajectories of each game share a meter; what it remembers of the first is true of the second."""
    kinds = set()
    for game in games:
        meter = DistanceMeter(game)
        for seed in (1, 2):
            walk = random_walk(game, 25, seed)
            steps = meter.steps(along(chat, game, walk, config))
            episode = game.open()
            assert isinstance(episode, SimulatedEpisode)
            for action, step in zip(walk, steps, strict=True):
                assert step.before == len(solve_from(episode) or ())
                episode.step(action)
                assert step.after == len(solve_from(episode) or ())
                kinds.add((step.after > step.before) - (step.after < step.before))
    assert kinds == {-1, 0, 1}


def test_the_turn_that_loses_a_game_for_good_is_known_not_to_be_good_and_the_rest_is_not_known(
    chat: ChatFormat, config: RolloutConfig
) -> None:
    """Nothing in this house holds a paper towel roll but where it came from: who takes it has no free hand again."""
    game = household_games("valid_unseen", 237, 1, seed=0)[236]
    walk = ["go to countertop 1", "take papertowelroll 1 from countertop 1", "look", "go to shelf 1"]
    _, taking, *rest = DistanceMeter(game).steps(along(chat, game, walk, config))
    assert taking.known
    assert (taking.after, taking.falls) == (LOST, False)
    assert [(step.known, step.falls) for step in rest] == [(False, False)] * 2


def test_a_trajectory_of_another_world_is_not_labelled(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    trajectory = along(chat, games[0], ["look", "look"], config)
    changed = replace(trajectory.turns[1], next_observation="You are on the moon.")
    forged = replace(trajectory, turns=(trajectory.turns[0], changed))
    with pytest.raises(RuntimeError, match=r"turn 2 of .* is replayed to another observation"):
        DistanceMeter(games[0]).steps(forged)


def test_only_the_simulator_can_be_asked(chat: ChatFormat, games: list[GameEntry], config: RolloutConfig) -> None:
    class Elsewhere:
        game_id, split, task_type, location = "x:y/z", "x", "y", str(Path("nowhere"))

        def open(self, engine: str = "simulator") -> object:
            return object()

    trajectory = along(chat, games[0], ["look"], config)
    with pytest.raises(TypeError, match="the expert needs the simulator"):
        DistanceMeter(Elsewhere()).steps(trajectory)  # type: ignore[arg-type]
