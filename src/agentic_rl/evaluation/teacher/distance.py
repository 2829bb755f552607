"""How far from the end each state of a trajectory was: the trajectory replayed, the expert asked."""

from __future__ import annotations

from dataclasses import dataclass

from agentic_rl.games.expert import MAX_DEPTH, solve_from
from agentic_rl.games.interface import GameEntry
from agentic_rl.games.simulator import SimulatedEpisode
from agentic_rl.games.world import State
from agentic_rl.rollout.trajectory import Trajectory

LOST = MAX_DEPTH + 1
"""Stands for the distance of a state that no solution of at most `MAX_DEPTH` commands leads on from."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one turn did to the number of commands that the expert, who knows everything, would still need.

    Searching a place in vain is no progress to it, even where no better turn could be known.
    """

    before: int
    after: int

    @property
    def known(self) -> bool:
        """Whether there was a distance that could fall: no turn is a good one in a game that is lost for good."""
        return self.before < LOST

    @property
    def falls(self) -> bool:
        return self.after < self.before


class DistanceMeter:
    """Measures the trajectories of one game; a state that several pass through is solved once."""

    def __init__(self, game: GameEntry) -> None:
        self._game = game
        self._solved: dict[State, int] = {}

    def steps(self, trajectory: Trajectory) -> list[Step]:
        """One entry a turn."""
        episode = self._game.open("simulator")
        if not isinstance(episode, SimulatedEpisode):
            raise TypeError(f"the expert needs the simulator, not {type(episode).__name__}")
        episode.reset()
        steps, before = [], self._distance(episode)
        for turn in trajectory.turns:
            seen = episode.step(turn.action or "").observation
            if seen != turn.next_observation:
                raise RuntimeError(f"turn {turn.step} of {trajectory.group_id} is replayed to another observation")
            after = self._distance(episode)
            steps.append(Step(before, after))
            before = after
        return steps

    def _distance(self, episode: SimulatedEpisode) -> int:
        if episode.state not in self._solved:
            solution = solve_from(episode)
            self._solved[episode.state] = LOST if solution is None else len(solution)
        return self._solved[episode.state]
