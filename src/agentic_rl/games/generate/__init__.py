"""Generated households: new games in ALFWorld's own format, six task types in four rooms, difficulty 1 to 5.

`difficulty` says how large; `layout` draws rooms and `household` fills them, both from the numbers in `measured`;
`pddl` writes the problem; `entries` lists games that need no files and `write` makes files of them.
"""

from agentic_rl.games.generate.difficulty import DEFAULT_DIFFICULTY, LEVELS, parse_household
from agentic_rl.games.generate.entries import HOUSEHOLD_SPLITS, HouseholdEntry, household_games
from agentic_rl.games.generate.write import write_households

__all__ = [
    "DEFAULT_DIFFICULTY",
    "HOUSEHOLD_SPLITS",
    "LEVELS",
    "HouseholdEntry",
    "household_games",
    "parse_household",
    "write_households",
]
