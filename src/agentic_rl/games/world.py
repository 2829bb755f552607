"""A loaded game: what is fixed about it (`Game`) and what play changes (`State`). Both are immutable.

Receptacles, objects and places are numbered in the order of their raw ids, so that sorting by number is the order in
which the texts list things.
"""

from __future__ import annotations

from collections import Counter, defaultdict
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
    lamps: frozenset[int]


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
    place_id, receptacle_type, object_type = (
        _single(problem, predicate) for predicate in ("receptacleatlocation", "receptacletype", "objecttype")
    )
    (start_place,) = _single(problem, "atlocation").values()
    receptacle = _numbered(place_id)
    thing = _numbered(object_type)
    place = _numbered({*place_id.values(), start_place, *(at for _, at in facts["objectatlocation"])})
    name = _shown_names(facts)

    accepts: dict[str, set[str]] = defaultdict(set)
    present = set(object_type.values())
    for receptacle_kind, object_kind in facts["cancontain"]:
        if object_kind in present:
            accepts[receptacle_kind].add(object_kind)
    accepted = {kind: frozenset(accepts[kind]) for kind in set(receptacle_type.values())}
    openable = {raw for (raw,) in facts["openable"]}
    receptacles = tuple(
        Receptacle(
            name[raw], receptacle_type[raw], place[place_id[raw]], raw in openable, accepted[receptacle_type[raw]]
        )
        for raw in receptacle
    )

    pickupable, toggleable, sliceable, cleanable, heatable, coolable, hollow = (
        {raw for (raw,) in facts[flag]}
        for flag in (
            "pickupable",
            "toggleable",
            "sliceable",
            "cleanable",
            "heatable",
            "coolable",
            "isreceptacleobject",
        )
    )
    inside = _rows(((thing[o], thing[outer]) for o, outer in facts["inreceptacleobject"]), len(thing))
    objects = tuple(
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
    )
    start = State(
        place=place[start_place],
        held=None,
        opened=frozenset(),
        contents=_rows(((thing[o], receptacle[r]) for o, r in facts["inreceptacle"]), len(receptacle)),
        lying=_rows(((thing[o], place[at]) for o, at in facts["objectatlocation"]), len(place)),
        taken=frozenset(),
        clean=frozenset(),
        hot=frozenset(),
        cool=frozenset(thing[raw] for (raw,) in facts["iscool"]),
        toggled=frozenset(),
        sliced=frozenset(),
    )
    receptacles_at = _rows(((r, one.place) for r, one in enumerate(receptacles)), len(place))
    return World(
        name=problem.name,
        task=problem.task,
        goal=_goal(problem, receptacles, objects),
        receptacles=receptacles,
        objects=objects,
        receptacles_at=receptacles_at,
        go_commands=_go_commands(receptacles, len(place)),
        numbers={
            **{one.name: r for r, one in enumerate(receptacles)},
            **{one.name: o for o, one in enumerate(objects)},
        },
        start=start,
        walkthrough=problem.walkthrough,
    )


def _single(problem: Problem, predicate: str) -> dict[str, str]:
    """A relation that must give each of its subjects one value."""
    pairs = problem.facts[predicate]
    values: dict[str, str] = dict(pairs)  # type: ignore[arg-type]
    if not values:
        raise GameFileError(f"{problem.name}: pddl_problem has no fact {predicate!r}", hint=REDOWNLOAD)
    for subject, value in pairs:
        if values[subject] != value:
            fault = f"pddl_problem gives {subject!r} two values of {predicate!r}"
            raise GameFileError(f"{problem.name}: {fault}", hint=REDOWNLOAD)
    return values


def _numbered(raw_ids: Iterable[str]) -> dict[str, int]:
    return {raw: number for number, raw in enumerate(sorted(raw_ids))}


def _rows(pairs: Iterable[tuple[int, int]], count: int) -> tuple[tuple[int, ...], ...]:
    """Pairs (member, row) as the sorted members of each row."""
    rows: list[set[int]] = [set() for _ in range(count)]
    for member, row in pairs:
        rows[row].add(member)
    return tuple(tuple(sorted(row)) for row in rows)


def _shown_names(facts: Facts) -> dict[str, str]:
    """Number the ids of each base name downwards: the first in string order gets the highest number.

    Everything that occurs in an initial fact is counted, also what play never shows.
    """
    raw_ids = sorted({argument for tuples in facts.values() for arguments in tuples for argument in arguments})
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
    return tuple(tuple(command for command, to in commands if to != place) for place in range(places))


def _goal(problem: Problem, receptacles: Sequence[Receptacle], objects: Sequence[Object]) -> Goal:
    """An object counts if it is of the type and, for clean, heat and cool, can become so."""
    kind, target = problem.goal_kind, problem.goal_target
    able = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}.get(kind)
    return Goal(
        kind,
        objects=frozenset(
            o
            for o, one in enumerate(objects)
            if one.type == problem.goal_object and (able is None or getattr(one, able))
        ),
        receptacles=tuple(r for r, one in enumerate(receptacles) if one.type == target and kind != "light"),
        lamps=frozenset(
            o for o, one in enumerate(objects) if one.type == target and one.toggleable and kind == "light"
        ),
    )
