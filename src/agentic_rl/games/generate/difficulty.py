"""How large a household is, and how well its objects are hidden."""

from __future__ import annotations

from dataclasses import dataclass

from agentic_rl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Level:
    """What one difficulty means.

    Attributes
    ----------
    receptacles, objects
        The range from which a household's upper bound is drawn; None leaves the room as large as a real one.
    closed
        Factor on the share of cabinets, drawers and safes that can be closed, and so start closed.
    hidden
        Factor on the chance that an object the task is about lies behind a door; at 0 it does so only if the room has
        no open place for it.
    distractors
        At most so many objects of the task's kind beyond those it needs; None leaves the real number.
    quirks
        Whether the data's oddities occur: an object in two receptacles at once, contents of bowls and pots.
    """

    receptacles: tuple[int, int] | None
    objects: tuple[int, int] | None
    closed: float
    hidden: float
    distractors: int | None
    quirks: bool


LEVELS: dict[int, Level] = {
    1: Level(receptacles=(5, 7), objects=(4, 7), closed=0.4, hidden=0.0, distractors=0, quirks=False),
    2: Level(receptacles=(8, 11), objects=(8, 12), closed=0.6, hidden=0.4, distractors=1, quirks=False),
    3: Level(receptacles=(14, 20), objects=(16, 24), closed=0.8, hidden=0.7, distractors=2, quirks=False),
    4: Level(receptacles=(20, 28), objects=(24, 34), closed=0.9, hidden=0.9, distractors=3, quirks=True),
    5: Level(receptacles=None, objects=None, closed=1.0, hidden=1.0, distractors=None, quirks=True),
}
"""Difficulty 3 is a small real kitchen or a bedroom of the usual size; 5 is drawn from the real rooms as they are."""

DEFAULT_DIFFICULTY = 1


def level(difficulty: int) -> Level:
    """The level of a difficulty, or a `ConfigError`."""
    if difficulty not in LEVELS:
        raise ConfigError(f"difficulty {difficulty} is unknown", hint="Use 1 to 5")
    return LEVELS[difficulty]


def parse_household(games: str) -> int:
    """The difficulty in `household[:difficulty]`, the form in which `--games` asks for generated games."""
    name, colon, difficulty = games.partition(":")
    if name != "household" or (colon and difficulty not in {str(known) for known in LEVELS}):
        raise ConfigError(f"--games {games} is unknown", hint="Use household, or household:1 to household:5")
    return int(difficulty) if colon else DEFAULT_DIFFICULTY
