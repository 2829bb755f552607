"""What was measured of the real training games (`scripts/measure_households.py`), ready to draw from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

Counts = Mapping[str, int]
Shares = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Room:
    """The measured numbers of one kind of room; kinds of things are named as in the files, `CounterTop`.

    Attributes
    ----------
    receptacles
        Kind to how many floor plans have how many of it.
    openable, not_alone
        The share of a kind's receptacles that open; that stand where another can be reached too.
    neighbours
        How often two kinds (`"Cabinet Drawer"`) share a place.
    objects
        Kind to how many games have how many of it in sight or behind a door.
    places
        Kind of object to how often it lies in which kind of receptacle.
    twice
        Kind of receptacle to the chance, by kind, that what lies in it lies in a second one as well.
    tasks
        Task type to how often which kind goes where (`"Mug Shelf"`).
    """

    name: str
    receptacles: Mapping[str, Mapping[int, int]]
    openable: Shares
    not_alone: Shares
    neighbours: Counts
    objects: Mapping[str, Mapping[int, int]]
    places: Mapping[str, Counts]
    twice: Mapping[str, Shares]
    tasks: Mapping[str, Counts]


@dataclass(frozen=True, slots=True)
class Measured:
    """What holds in every room, and the rooms by name.

    Attributes
    ----------
    objects
        Kind to the predicates that are true of it, `pickupable` and so on.
    holds
        Kind of receptacle to the kinds that may be put into it.
    cool_in_fridge
        Kind to the chance that one in a fridge starts out cool.
    inside
        The chance that of two objects in one receptacle the first (`"Pan Pot"`) lies in the second.
    """

    objects: Mapping[str, frozenset[str]]
    holds: Mapping[str, frozenset[str]]
    cool_in_fridge: Shares
    inside: Shares
    rooms: Mapping[str, Room]

    def rooms_for(self, task_type: str) -> dict[str, int]:
        """How many training games of this type each room has."""
        counts = {name: sum(room.tasks.get(task_type, {}).values()) for name, room in self.rooms.items()}
        return {name: count for name, count in counts.items() if count}


@cache
def measured() -> Measured:
    """The committed table."""
    table = json.loads(resources.files(__package__).joinpath("measured.json").read_text(encoding="utf-8"))
    rooms = {
        name: Room(
            name=name,
            receptacles=_numbered(room["receptacles"]),
            objects=_numbered(room["objects"]),
            **{key: room[key] for key in ("openable", "not_alone", "neighbours", "places", "twice", "tasks")},
        )
        for name, room in table["rooms"].items()
    }
    return Measured(
        objects={kind: frozenset(predicates) for kind, predicates in table["objects"].items()},
        holds={kind: frozenset(held) for kind, held in table["holds"].items()},
        cool_in_fridge=table["cool_in_fridge"],
        inside=table["inside"],
        rooms=rooms,
    )


def _numbered(tallies: Mapping[str, Counts]) -> dict[str, dict[int, int]]:
    return {kind: {int(number): count for number, count in tally.items()} for kind, tally in tallies.items()}
