"""An expert that knows only what it has been shown: it reads the game's texts and remembers what it saw.

It searches places in the order in which the game lists them, going on from where it stands and beginning again at
the end of the list, and goes straight for whatever it has already seen. Nothing in it is random: a model that
imitates it has a reason to read the list. The omniscient expert of `agentic_rl.games` would teach guessing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import vocabulary

TOOLS = {
    "pick_clean_then_place_in_recep": ("clean", "sinkbasin"),
    "pick_heat_then_place_in_recep": ("heat", "microwave"),
    "pick_cool_then_place_in_recep": ("cool", "fridge"),
}

_SURFACE = re.compile(r"On the (\w+ \d+), you see ([^.]*)\.")
_CONTAINER = re.compile(r"The (\w+ \d+) is open\. In it, you see ([^.]*)\.")
_TAKE = re.compile(r"You pick up the (\w+ \d+) from the (\w+ \d+)\.")
_MOVE = re.compile(r"You move the (\w+ \d+) to the (\w+ \d+)\.")
_TREAT = re.compile(r"You (?:clean|heat|cool) the (\w+ \d+) using")
_THING = re.compile(r"\ba (\w+ \d+)")


def kind(name: str) -> str:
    return name.split()[0]


class Explorer:
    """Chooses an action from what has been seen so far; `observe` first, after every action."""

    def __init__(self, task_type: str, task: str, admissible: Iterable[str]) -> None:
        named = [word for word in re.findall(r"\w+", task) if word in vocabulary.NAMES]
        self.task_type = task_type
        self.object, self.place = named[0], named[-1]
        self.order = [action.removeprefix("go to ") for action in admissible if action.startswith("go to ")]
        self.contents: dict[str, list[str]] = {}
        self.held: str | None = None
        self.treated: set[str] = set()
        self.position = -1

    def observe(self, action: str, observation: str) -> None:
        """Remember what an action and its answer showed."""
        if action.startswith("go to ") and observation.startswith("You arrive"):
            self.position = self.order.index(action.removeprefix("go to "))
        for pattern in (_SURFACE, _CONTAINER):
            for place, things in pattern.findall(observation):
                self.contents[place] = _THING.findall(things)
        if taken := _TAKE.match(observation):
            self.held = taken[1]
            self.contents[taken[2]].remove(taken[1])
        elif moved := _MOVE.match(observation):
            self.held = None
            self.contents.setdefault(moved[2], []).append(moved[1])
        elif treated := _TREAT.match(observation):
            self.treated.add(treated[1])

    def act(self, admissible: Sequence[str]) -> str:
        """The next action, one of `admissible`."""
        can = dict.fromkeys(admissible)
        if self.held is None:
            return self._fetch(can) or self._explore(can)
        if kind(self.held) != self.object:
            return self._put_away(can)
        if self.task_type == "look_at_obj_in_light":
            return self._light(can) or self._explore(can)
        if self.task_type in TOOLS and self.held not in self.treated:
            return self._treat(can) or self._explore(can)
        return self._deliver(can) or self._explore(can)

    def _goal(self) -> str | None:
        """Where the first of two objects lies."""
        if self.task_type != "pick_two_obj_and_place":
            return None
        done = (place for place, things in self.contents.items() if kind(place) == self.place and self._wanted(things))
        return next(done, None)

    def _wanted(self, things: Iterable[str]) -> list[str]:
        return [thing for thing in things if kind(thing) == self.object]

    def _fetch(self, can: dict[str, None]) -> str | None:
        goal = self._goal()
        seen = [(o, place) for place, things in self.contents.items() if place != goal for o in self._wanted(things)]
        for o, place in sorted(seen):
            if f"take {o} from {place}" in can:
                return f"take {o} from {place}"
        return next((step for _, place in seen if (step := self._reach(place, can))), None)

    def _light(self, can: dict[str, None]) -> str | None:
        for place, things in self.contents.items():
            for lamp in things:
                if kind(lamp) == self.place:
                    return f"use {lamp}" if f"use {lamp}" in can else self._reach(place, can)
        return None

    def _treat(self, can: dict[str, None]) -> str | None:
        verb, tool = TOOLS[self.task_type]
        return self._first(can, f"{verb} {self.held} with ") or self._go_to_first(tool, can)

    def _deliver(self, can: dict[str, None]) -> str | None:
        if goal := self._goal():
            return f"move {self.held} to {goal}" if f"move {self.held} to {goal}" in can else self._reach(goal, can)
        return (
            self._first(can, f"move {self.held} to {self.place} ")
            or self._first(can, f"open {self.place} ")
            or self._go_to_first(self.place, can)
        )

    def _put_away(self, can: dict[str, None]) -> str:
        return self._first(can, f"move {self.held} to ") or self._explore(can)

    def _reach(self, place: str, can: dict[str, None]) -> str | None:
        return next((step for step in (f"go to {place}", f"open {place}") if step in can), None)

    def _first(self, can: dict[str, None], start: str) -> str | None:
        return next((action for action in can if action.startswith(start)), None)

    def _go_to_first(self, of_kind: str, can: dict[str, None]) -> str | None:
        return self._first(can, f"go to {of_kind} ")

    def _explore(self, can: dict[str, None]) -> str:
        for place in self.order:
            if place not in self.contents and f"examine {place}" in can:
                return f"open {place}" if f"open {place}" in can else f"examine {place}"
        turn = self.position + 1
        ahead = [place for place in self.order[turn:] + self.order[:turn] if f"go to {place}" in can]
        unseen = [place for place in ahead if place not in self.contents]
        return f"go to {(unseen or ahead)[0]}"
