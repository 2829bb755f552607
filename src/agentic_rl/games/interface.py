"""What every engine offers: an episode that is reset once and then stepped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StepResult:
    """What an episode shows after a reset or a step.

    Attributes
    ----------
    observation
        The game's text, exactly as the engine gives it.
    admissible_actions
        Every command that does something now, sorted (`help` included; prompts leave it out).
    won, done
        Whether the goal holds now; whether the engine has ended the episode.
    score
        1.0 if won else 0.0.
    """

    observation: str
    admissible_actions: tuple[str, ...]
    won: bool
    done: bool
    score: float


class Episode(Protocol):
    """One play of one game. `blocking` tells whether `step` is slow enough to belong in a thread."""

    blocking: bool

    def reset(self) -> StepResult: ...

    def step(self, action: str) -> StepResult: ...

    def close(self) -> None: ...


class GameEntry(Protocol):
    """One playable game: a file of a dataset, or a generated household that needs no file."""

    @property
    def game_id(self) -> str:
        """`<split>:<task>/<trial>`, unique within a panel."""
        ...

    @property
    def split(self) -> str: ...

    @property
    def task_type(self) -> str: ...

    @property
    def location(self) -> str:
        """Where the game comes from, for records and messages: a path or a generator's address."""
        ...

    def open(self, engine: str = "simulator") -> Episode: ...


TASK_TYPES: tuple[str, ...] = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
