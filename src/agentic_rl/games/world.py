"""A loaded game: what is fixed about it (`World`) and what play changes (`State`). Both are immutable.

Receptacles, objects and places are numbered in the order of their raw ids, so that sorting by number is the order in
which the texts list things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentic_rl.errors import GameFileError
from agentic_rl.games.problem import REDOWNLOAD, Facts, Problem


class Receptacle(NamedTuple):
    """A thing that objects lie on or in. `accepts` are the types of object that may be moved to it."""

    name: str
    type: str
    place: int
    openable: bool
    accepts: frozenset[str]


class Object(NamedTuple):
    """A thing that may be handled. `holds` are the objects inside a bowl or pot (for good); None if it is neither."""

    name: str
    type: str
    pickupable: bool
    toggleable: bool
    sliceable: bool
    cleanable: bool
    heatable: bool
    coolable: bool
    holds: tuple[int, ...] | None


class State(NamedTuple):
    """Everything that play changes; hashable, and equal states play on equally.

    Attributes
    ----------
    place, held
        Where the agent is and which object it holds.
    opened
        The open receptacles.
    contents
        For each receptacle the objects in it. One object may be in several receptacles.
    lying
        For each place the objects recorded as being there, which need not agree with `contents`.
    taken
        Pairs (object, receptacle): taken from there and not put back there since.
    """

    place: int
    held: int | None
    opened: frozenset[int]
    contents: tuple[tuple[int, ...], ...]
    lying: tuple[tuple[int, ...], ...]
    taken: frozenset[tuple[int, int]]
    clean: frozenset[int]
    hot: frozenset[int]
    cool: frozenset[int]
    toggled: frozenset[int]
    sliced: frozenset[int]


class Goal(NamedTuple):
    """What wins: one of the six kinds, the objects that count, and the receptacles (or lamps) that count."""

    kind: str
    objects: frozenset[int]
    receptacles: tuple[int, ...]
    lamps: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """What is fixed about one game, shared by all its episodes."""

    name: str
    task: str
    goal: Goal
    receptacles: tuple[Receptacle, ...]
    objects: tuple[Object, ...]
    receptacles_at: tuple[tuple[int, ...], ...]
    go_commands: tuple[tuple[str, ...], ...]
    """For each place the sorted commands that lead away from it."""
    numbers: dict[str, int]
    """Shown name to number, for objects and receptacles, whose names never clash."""
    start: State
    walkthrough: tuple[str, ...]


def build_world(problem: Problem) -> World:
    """Number and name everything in a problem."""
    try:
        return _build(problem)
    except KeyError as error:
        fault = f"pddl_problem uses {error.args[0]!r} but never says its type or where it is"
        raise GameFileError(f"{problem.name}: {fault}", hint=REDOWNLOAD) from None


def _build(problem: Problem) -> World:
    facts = problem.facts
    place_id = _single(problem, "receptacleatlocation")
    receptacle_type = _single(problem, "receptacletype")
    object_type = _single(problem, "objecttype")
    (start_place,) = _single(problem, "atlocation").values()
    receptacle = _numbered(place_id)
    thing = _numbered(object_type)
    place = _numbered({*place_id.values(), start_place, *[at for _, _, at in facts["objectatlocation"]]})
    name = _shown_names(facts)

    accepts: dict[str, set[str]] = {kind: set() for kind in receptacle_type.values()}
    present = set(object_type.values())
    for _, outer, inner in facts["cancontain"]:
        if inner in present and outer in accepts:
            accepts[outer].add(inner)
    accepted = {kind: frozenset(kinds) for kind, kinds in accepts.items()}
    openable = _flagged(facts, "openable")
    receptacles = tuple(
        [
            Receptacle(name[raw], kind := receptacle_type[raw], place[place_id[raw]], raw in openable, accepted[kind])
            for raw in receptacle
        ]
    )

    pickupable, toggleable, sliceable = (_flagged(facts, flag) for flag in ("pickupable", "toggleable", "sliceable"))
    cleanable, heatable, coolable = (_flagged(facts, flag) for flag in ("cleanable", "heatable", "coolable"))
    hollow = _flagged(facts, "isreceptacleobject")
    inside = _rows([(thing[o], thing[outer]) for _, o, outer in facts["inreceptacleobject"]], len(thing))
    objects = tuple(
        [
            Object(
                name[raw],
                object_type[raw],
                raw in pickupable,
                raw in toggleable,
                raw in sliceable,
                raw in cleanable,
                raw in heatable,
                raw in coolable,
                inside[o] if raw in hollow else None,
            )
            for raw, o in thing.items()
        ]
    )
    start = State(
        place=place[start_place],
        held=None,
        opened=frozenset(),
        contents=_rows([(thing[o], receptacle[r]) for _, o, r in facts["inreceptacle"]], len(receptacle)),
        lying=_rows([(thing[o], place[at]) for _, o, at in facts["objectatlocation"]], len(place)),
        taken=frozenset(),
        clean=frozenset(),
        hot=frozenset(),
        cool=frozenset([thing[raw] for raw in _flagged(facts, "iscool")]),
        toggled=frozenset(),
        sliced=frozenset(),
    )
    numbers = {one.name: r for r, one in enumerate(receptacles)}
    numbers.update([(one.name, o) for o, one in enumerate(objects)])
    return World(
        name=problem.name,
        task=problem.task,
        goal=_goal(problem, receptacles, objects),
        receptacles=receptacles,
        objects=objects,
        receptacles_at=_rows([(r, one.place) for r, one in enumerate(receptacles)], len(place)),
        go_commands=_go_commands(receptacles, len(place)),
        numbers=numbers,
        start=start,
        walkthrough=problem.walkthrough,
    )


def _single(problem: Problem, predicate: str) -> dict[str, str]:
    """A relation that must give each of its subjects one value."""
    facts = problem.facts[predicate]
    values = {subject: value for _, subject, value in facts}
    if not values:
        raise GameFileError(f"{problem.name}: pddl_problem has no fact {predicate!r}", hint=REDOWNLOAD)
    for _, subject, value in facts:
        if values[subject] != value:
            fault = f"pddl_problem gives {subject!r} two values of {predicate!r}"
            raise GameFileError(f"{problem.name}: {fault}", hint=REDOWNLOAD)
    return values


def _numbered(raw_ids: Iterable[str]) -> dict[str, int]:
    return {raw: number for number, raw in enumerate(sorted(raw_ids))}


def _flagged(facts: Facts, predicate: str) -> set[str]:
    return {raw for _, raw in facts[predicate]}


def _rows(pairs: Iterable[tuple[int, int]], count: int) -> tuple[tuple[int, ...], ...]:
    """Pairs (member, row) as the sorted members of each row."""
    rows: list[list[int]] = [[] for _ in range(count)]
    for member, row in sorted({*pairs}):
        rows[row].append(member)
    return tuple(map(tuple, rows))


def _shown_names(facts: Facts) -> dict[str, str]:
    """Number the ids of each base name downwards: the first in string order gets the highest number.

    Everything that occurs in an initial fact is counted, also what play never shows.
    """
    seen: set[str] = set().union(*[fact for instances in facts.values() for fact in instances])
    raw_ids = sorted(seen.difference([f"({predicate}" for predicate in facts]))
    bases = [raw.partition("_bar_")[0] + ("basin" if "basin" in raw else "") for raw in raw_ids]
    left = Counter(bases)
    names = {}
    for raw, base in zip(raw_ids, bases, strict=True):
        names[raw] = f"{base} {left[base]}"
        left[base] -= 1
    return names


def _go_commands(receptacles: Sequence[Receptacle], places: int) -> tuple[tuple[str, ...], ...]:
    """No trip to where the agent already is: the planner prunes an operator without effect."""
    commands = sorted((f"go to {receptacle.name}", receptacle.place) for receptacle in receptacles)
    return tuple([tuple([command for command, to in commands if to != place]) for place in range(places)])


def _goal(problem: Problem, receptacles: Sequence[Receptacle], objects: Sequence[Object]) -> Goal:
    """An object counts if it is of the type and, for clean, heat and cool, can become so."""
    kind, wanted, target = problem.goal_kind, problem.goal_object, problem.goal_target
    able = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}.get(kind, "name")
    counting = [o for o, one in enumerate(objects) if one.type == wanted and getattr(one, able)]
    if kind == "light":
        lamps = [o for o, one in enumerate(objects) if one.type == target and one.toggleable]
        return Goal(kind, frozenset(counting), (), frozenset(lamps))
    return Goal(kind, frozenset(counting), tuple([r for r, one in enumerate(receptacles) if one.type == target]))
