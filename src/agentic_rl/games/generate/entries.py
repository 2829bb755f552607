"""Panels of households: listed in no time, written out only when one is opened."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentic_rl.errors import ConfigError
from agentic_rl.games.generate.difficulty import level
from agentic_rl.games.generate.draw import fingerprint
from agentic_rl.games.generate.household import Household, draw_household
from agentic_rl.games.generate.pddl import problem_text
from agentic_rl.games.interface import TASK_TYPES, Episode
from agentic_rl.games.problem import TASK_PREFIX
from agentic_rl.games.simulator import Game, build_game

HOUSEHOLD_SPLITS = ("train", "valid_seen", "valid_unseen")

VALID_SEEN_SHARE = 8
"""One in so many instances of the seen rooms belongs to `valid_seen`, whatever the seed; the others to `train`."""


@dataclass(frozen=True, slots=True)
class HouseholdEntry:
    """One generated game; it satisfies `GameEntry` and needs no file.

    Attributes
    ----------
    attempt
        Which draw it took to get a game of this split that no earlier entry has.
    """

    game_id: str
    split: str
    task_type: str
    difficulty: int
    seed: int
    index: int
    attempt: int = field(repr=False)

    @property
    def location(self) -> str:
        return f"household:{self.difficulty} {self.split} {self.index} (seed {self.seed})"

    @property
    def task(self) -> str:
        """The task folder's name, as in `<split>/<task>/<trial>/game.tw-pddl`."""
        return self.game_id.partition(":")[2].partition("/")[0]

    @property
    def trial(self) -> str:
        return self.game_id.rpartition("/")[2]

    def household(self) -> Household:
        """The household in parts."""
        return _draw(self.split, self.difficulty, self.seed, self.index, self.attempt)

    def problem(self) -> str:
        """The PDDL problem."""
        return problem_text(self.household(), f"plan_{self.trial}")

    def load(self) -> Game:
        """The game, ready for any number of episodes."""
        household = self.household()
        problem = problem_text(household, f"plan_{self.trial}")
        return build_game(problem, f"{TASK_PREFIX}{household.task.sentence}", self.location)

    def open(self, engine: str = "simulator") -> Episode:
        """A new play; TextWorld needs a file, so for that engine one is written to a temporary folder."""
        if engine == "simulator":
            return self.load().episode()
        from agentic_rl.games.generate.write import open_written

        return open_written(self, engine)


def household_games(split: str, count: int, difficulty: int, seed: int) -> list[HouseholdEntry]:
    """The first `count` households of a split: balanced over the six task types, no two the same.

    Entry `i` does not depend on `count`. Games of different splits never coincide, whatever their seeds: unseen rooms
    have other receptacles, and of the instances of a seen room each belongs to one of the other two splits.

    Parameters
    ----------
    split
        `train`, `valid_seen` (the rooms of `train`, other instances) or `valid_unseen` (other rooms).
    count
        How many; 0 or more.
    difficulty
        1 (five to seven receptacles) to 5 (as large as the real games).
    seed
        Selects the instances; the rooms are the same for every seed.

    Raises
    ------
    ConfigError
        An unknown split or difficulty, or a negative number.
    """
    if split not in HOUSEHOLD_SPLITS:
        raise ConfigError(f"there are no households for split {split!r}", hint=f"Use {', '.join(HOUSEHOLD_SPLITS)}")
    level(difficulty)
    for name, value in (("count", count), ("seed", seed)):
        if value < 0:
            raise ConfigError(f"{name} {value} is below 0")
    entries: list[HouseholdEntry] = []
    drawn: set[int] = set()
    for index in range(count):
        attempt, household = 0, _draw(split, difficulty, seed, index, 0)
        while not _belongs(split, mark := household.fingerprint()) or mark in drawn:
            attempt += 1
            household = _draw(split, difficulty, seed, index, attempt)
        drawn.add(mark)
        task = household.task
        name = f"{task.type}-{task.object}-None-{task.target}-{household.layout.number}"
        trial = f"trial_D{difficulty}_S{seed}_{index:06}"
        entries.append(HouseholdEntry(f"{split}:{name}/{trial}", split, task.type, difficulty, seed, index, attempt))
    return entries


def _draw(split: str, difficulty: int, seed: int, index: int, attempt: int) -> Household:
    key = (split, seed, index, attempt)
    return draw_household(TASK_TYPES[index % len(TASK_TYPES)], difficulty, unseen=split == "valid_unseen", key=key)


def _belongs(split: str, mark: int) -> bool:
    # Hashed again, so that the split hangs on other bits than those that tell games apart.
    return split == "valid_unseen" or (fingerprint("split", mark) % VALID_SEEN_SHARE == 0) == (split == "valid_seen")
