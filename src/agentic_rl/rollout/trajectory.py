"""Turn, trajectory, group: what a rollout leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from agentic_rl.games.interface import GameEntry


class StopReason(StrEnum):
    """Why a trajectory ended. Only `WON` is a success; every other one counts as truncated."""

    WON = "won"
    ENVIRONMENT_DONE = "environment_done"
    MAX_STEPS = "max_steps"
    MAX_TURNS = "max_turns"
    TRAJECTORY_TOO_LONG = "trajectory_too_long"


@dataclass(frozen=True, slots=True)
class Turn:
    """One assistant turn and what the game answered.

    Attributes
    ----------
    step
        Counts from 1.
    observation, admissible_actions
        What the agent saw when it acted (`admissible_actions` without `help`).
    action
        The parsed action, or None if the turn was malformed.
    tool_response
        The whole tool message; `next_observation` is the game's part of it.
    start, end
        The sampled tokens are `trajectory.tokens[start:end]`; `start` is also the length of the turn's prompt.
    logprobs
        Shape (end - start,): log-probabilities at sampling time.
    """

    step: int
    observation: str
    admissible_actions: tuple[str, ...]
    assistant_text: str
    call_id: str
    action: str | None
    valid_format: bool
    admissible: bool
    tool_response: str
    next_observation: str
    environment_score: float
    done: bool
    won: bool
    start: int
    end: int
    logprobs: NDArray[np.float64] = field(repr=False)

    @property
    def valid_action(self) -> bool:
        """Well formed, and admissible in the state it was taken in."""
        return self.valid_format and self.admissible


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode as the agent lived it.

    `tokens` is the whole sequence: the first prompt, then sampled tokens and what the dialogue put between
    them, ending with the last turn's sampled tokens.
    """

    game: GameEntry
    group_id: str
    group_index: int
    task: str
    initial_observation: str
    system: str
    user: str
    tokens: NDArray[np.int64] = field(repr=False)
    turns: tuple[Turn, ...] = field(repr=False)
    stop_reason: StopReason

    @property
    def won(self) -> bool:
        return self.stop_reason is StopReason.WON

    @property
    def truncated(self) -> bool:
        return not self.won

    @property
    def first_prompt_length(self) -> int:
        return self.turns[0].start if self.turns else len(self.tokens)

    @property
    def invalid_action_count(self) -> int:
        return sum(not turn.valid_action for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Group:
    """Independent episodes of one game from one initial state. `dropped` of them failed and are not here."""

    game: GameEntry
    group_id: str
    trajectories: tuple[Trajectory, ...]
    dropped: int = 0
