"""The reference engine under a rollout: real TextWorld processes, one of which is killed in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from scripted_sampler import Request, ScriptedSampler, expert

from agentic_rl.dialogue import ChatFormat
from agentic_rl.games import discover
from agentic_rl.games.interface import Episode, GameEntry
from agentic_rl.rollout import RolloutConfig, run_groups


@dataclass
class Watched:
    """A game that remembers its episodes."""

    entry: GameEntry
    episodes: list[Episode] = field(default_factory=list)

    @property
    def game_id(self) -> str:
        return self.entry.game_id

    @property
    def split(self) -> str:
        return self.entry.split

    @property
    def task_type(self) -> str:
        return self.entry.task_type

    @property
    def location(self) -> str:
        return self.entry.location

    def open(self, engine: str = "simulator") -> Episode:
        episode = self.entry.open(engine)
        if engine == "textworld":
            self.episodes.append(episode)
        return episode


def test_a_killed_textworld_process_costs_one_trajectory_and_the_others_play_as_the_simulator_does(
    sample_root: Path, chat: ChatFormat, config: RolloutConfig
) -> None:
    pytest.importorskip("textworld")
    game = Watched(next(game for game in discover(sample_root, ["train"]) if game.task_type.startswith("pick_heat")))
    killed: list[int] = []

    async def hook(request: Request) -> None:
        if request.turn == 3 and not killed:
            running = [pid for episode in game.episodes if (pid := getattr(episode, "process_id", None))]
            os.kill(running[0], signal.SIGKILL)
            killed.append(running[0])

    sampler = ScriptedSampler(chat, expert([game]), hook)
    on_textworld = replace(config, engine="textworld")
    rollout = asyncio.run(run_groups([game], sampler, chat, on_textworld, update=1))
    (group,) = rollout.groups
    assert killed
    assert (len(group.trajectories), group.dropped, rollout.dropped_trajectories) == (2, 1, 1)
    assert game.game_id in rollout.failures[0]
    assert "process" in rollout.failures[0]
    assert len(game.episodes) == config.group_size
    assert all(getattr(episode, "process_id", 0) is None for episode in game.episodes)

    reference = asyncio.run(run_groups([game], ScriptedSampler(chat, expert([game])), chat, config, update=1))
    for trajectory in group.trajectories:
        twin = reference.groups[0].trajectories[trajectory.group_index]
        assert np.array_equal(trajectory.tokens, twin.tokens)
        assert [turn.tool_response for turn in trajectory.turns] == [turn.tool_response for turn in twin.turns]
