"""What was measured of the real training games (`scripts/measure_households.py`), ready to draw from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from agentic_rl.games.generate.draw import Weights

Counts = Mapping[str, int]
Shares = Mapping[str, float]
Pair = tuple[str, str]


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
        How often two kinds, in alphabetical order, share a place.
    objects
        Kind to how many games have how many of it in a receptacle.
    places
        Kind of object to how often it lies in which kind of receptacle.
    twice
        Kind of receptacle to the chance, by kind, that what lies in it lies in a second one as well.
    tasks
        Task type to how often which kind goes where, `("Mug", "Shelf")`.
    """

    name: str
    receptacles: Mapping[str, Weights[int]]
    openable: Shares
    not_alone: Shares
    neighbours: Mapping[Pair, int]
    objects: Mapping[str, Weights[int]]
    places: Mapping[str, Counts]
    twice: Mapping[str, Shares]
    tasks: Mapping[str, Mapping[Pair, int]]


@dataclass(frozen=True, slots=True)
class Measured:
    """What holds in every room, and the rooms by name.

    Attributes
    ----------
    objects
        Kind to the predicates that are true of it, `pickupable` and so on.
    holds
        Kind of receptacle to the kinds that may be put into it.
    same_kind
        Task type to how many objects of the kind it is about there are, the needed ones included.
    cool_in_fridge
        Kind to the chance that one in a fridge starts out cool.
    inside
        The chance that of two objects in one receptacle the first lies in the second, `("Pan", "Pot")`.
    rooms_by_task
        Task type to how many training games each room has of it.
    """

    objects: Mapping[str, frozenset[str]]
    holds: Mapping[str, frozenset[str]]
    same_kind: Mapping[str, Weights[int]]
    cool_in_fridge: Shares
    inside: Mapping[Pair, float]
    rooms: Mapping[str, Room]
    rooms_by_task: Mapping[str, Weights[str]]


@cache
def measured() -> Measured:
    """The committed table."""
    table = json.loads(resources.files(__package__).joinpath("measured.json").read_text(encoding="utf-8"))
    rooms = {name: _room(name, numbers) for name, numbers in table["rooms"].items()}
    task_types = sorted({task_type for room in rooms.values() for task_type in room.tasks})
    return Measured(
        objects={kind: frozenset(predicates) for kind, predicates in table["objects"].items()},
        holds={kind: frozenset(held) for kind, held in table["holds"].items()},
        same_kind=_tallies(table["same_kind"]),
        cool_in_fridge=table["cool_in_fridge"],
        inside=_by_pair(table["inside"]),
        rooms=rooms,
        rooms_by_task={
            task_type: Weights({name: sum(room.tasks.get(task_type, {}).values()) for name, room in rooms.items()})
            for task_type in task_types
        },
    )


def _room(name: str, numbers: Mapping[str, Any]) -> Room:
    return Room(
        name=name,
        receptacles=_tallies(numbers["receptacles"]),
        openable=numbers["openable"],
        not_alone=numbers["not_alone"],
        neighbours=_by_pair(numbers["neighbours"]),
        objects=_tallies(numbers["objects"]),
        places=numbers["places"],
        twice=numbers["twice"],
        tasks={task_type: _by_pair(counts) for task_type, counts in numbers["tasks"].items()},
    )


def _tallies(tallies: Mapping[str, Counts]) -> dict[str, Weights[int]]:
    return {kind: Weights({int(number): count for number, count in tally.items()}) for kind, tally in tallies.items()}


def _by_pair[N: float](numbers: Mapping[str, N]) -> dict[Pair, N]:
    pairs = {}
    for words, number in numbers.items():
        first, second = words.split()
        pairs[first, second] = number
    return pairs
