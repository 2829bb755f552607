"""Measure what ALFWorld's training games look like, for the generator of new ones.

    python scripts/measure_households.py "$ALFWORLD_DATA"

writes `src/agentic_rl/games/generate/measured.json`: counts and shares by room, never a game. Only the training split
is read, so that nothing about the held-out rooms gets into generated games.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).resolve().parents[1] / "src/agentic_rl/games/generate/measured.json"
ROOMS = {0: "kitchen", 2: "living room", 3: "bedroom", 4: "bathroom"}
"""ALFRED numbers its floor plans by room: 1 to 30 kitchens, 201 to 230 living rooms, and so on."""

PROPERTIES = ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable", "isReceptacleObject")
FACT = re.compile(r"\((\w+) (\w+)(?: (\w+))?\)")

Counts = Counter[str]


@dataclass
class Room:
    """What is added up over the games of one room; a floor plan counts once, whatever the number of its games."""

    games: int = 0
    floor_plans: dict[int, Counts] = field(default_factory=dict)
    openable: Counts = field(default_factory=Counter)
    receptacles: Counts = field(default_factory=Counter)
    alone: Counts = field(default_factory=Counter)
    neighbours: Counts = field(default_factory=Counter)
    objects: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    places: defaultdict[str, Counts] = field(default_factory=lambda: defaultdict(Counter))
    twice: defaultdict[str, Counts] = field(default_factory=lambda: defaultdict(Counter))
    tasks: defaultdict[str, Counts] = field(default_factory=lambda: defaultdict(Counter))


@dataclass
class World:
    """What holds in every room."""

    properties: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    instances: Counts = field(default_factory=Counter)
    with_property: Counts = field(default_factory=Counter)
    holds: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    inside: Counts = field(default_factory=Counter)
    beside: Counts = field(default_factory=Counter)
    same_kind: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    in_fridge: Counts = field(default_factory=Counter)
    cool_in_fridge: Counts = field(default_factory=Counter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="the folder that holds json_2.1.1")
    parser.add_argument("--out", type=Path, default=MEASURED)
    arguments = parser.parse_args()
    files = sorted(arguments.data.glob("json_2.1.1/train/*/*/game.tw-pddl"))
    rooms: defaultdict[str, Room] = defaultdict(Room)
    world = World()
    for file in files:
        task = file.parts[-3]
        floor_plan = int(task.rsplit("-", 1)[1])
        add_game(world, rooms[ROOMS[floor_plan // 100]], task, floor_plan, read_facts(file))
    arguments.out.write_text(compact(summary(len(files), world, rooms)) + "\n", encoding="utf-8")


def read_facts(file: Path) -> dict[str, list[tuple[str, str]]]:
    """The initial facts of a game by predicate; a fact of one argument gets an empty second one."""
    problem = json.loads(file.read_text(encoding="utf-8"))["pddl_problem"]
    facts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for predicate, first, second in FACT.findall(problem[problem.index("(:init") : problem.index("(:goal")]):
        facts[predicate].append((first, second))
    return facts


def add_game(world: World, room: Room, task: str, floor_plan: int, facts: Mapping[str, list[tuple[str, str]]]) -> None:
    """Add one game's facts to the sums."""
    kinds = {name: kind.removesuffix("Type") for name, kind in facts["receptacleType"] + facts["objectType"]}
    receptacles = dict(facts["receptacleAtLocation"])
    openable = {name for name, _ in facts["openable"]}
    held: defaultdict[str, set[str]] = defaultdict(set)
    for name, receptacle in facts["inReceptacle"]:
        held[name].add(receptacle)

    room.games += 1
    room.floor_plans[floor_plan] = Counter(kinds[name] for name in receptacles)
    task_type, kind, _, target, _ = task.split("-")
    room.tasks[task_type][f"{kind} {target}"] += 1
    at: defaultdict[str, list[str]] = defaultdict(list)
    for name, location in receptacles.items():
        at[location].append(kinds[name])
        room.receptacles[kinds[name]] += 1
        room.openable[kinds[name]] += name in openable
    for neighbours in at.values():
        room.alone.update(neighbours if len(neighbours) == 1 else ())
        room.neighbours.update(" ".join(sorted(pair)) for pair in combinations(neighbours, 2))

    in_sight = Counter(kinds[name] for name in held)
    world.same_kind[task_type][in_sight[kind]] += 1
    for kind, count in in_sight.items():
        room.objects[kind][count] += 1
    for name, places in held.items():
        first, *others = sorted(places)
        room.places[kinds[name]].update(kinds[place] for place in places)
        for other in others:
            room.twice[kinds[first]][kinds[other]] += 1
    add_kinds(world, kinds, held, facts)


def add_kinds(
    world: World, kinds: Mapping[str, str], held: Mapping[str, set[str]], facts: Mapping[str, list[tuple[str, str]]]
) -> None:
    for name, _ in facts["objectType"]:
        world.instances[kinds[name]] += 1
    for property_ in PROPERTIES:
        world.with_property.update(f"{kinds[name]} {property_}" for name, _ in facts[property_] if name in kinds)
    for receptacle, kind in facts["canContain"]:
        world.holds[receptacle.removesuffix("Type")].add(kind.removesuffix("Type"))
    cool = {name for name, _ in facts["isCool"]}
    containers = {name for name, _ in facts["isReceptacleObject"]}
    inside = set(facts["inReceptacleObject"])
    contents: defaultdict[str, list[str]] = defaultdict(list)
    for name, places in held.items():
        if any(kinds[place] == "Fridge" for place in places):
            world.in_fridge[kinds[name]] += 1
            world.cool_in_fridge[kinds[name]] += name in cool
        for place in places:
            contents[place].append(name)
    for names in contents.values():
        for outer in containers.intersection(names):
            for name in names:
                if name != outer:
                    pair = f"{kinds[name]} {kinds[outer]}"
                    world.beside[pair] += 1
                    world.inside[pair] += (name, outer) in inside


def summary(games: int, world: World, rooms: Mapping[str, Room]) -> dict[str, Any]:
    """The table as it is committed."""
    return {
        "games": games,
        # A kind of object has a property if most of its instances do; the exceptions are data errors of one floor plan.
        "objects": {
            kind: [name for name in PROPERTIES if 2 * world.with_property[f"{kind} {name}"] > count]
            for kind, count in sorted(world.instances.items())
            if any(kind in room.places for room in rooms.values())
        },
        "holds": {kind: sorted(held) for kind, held in sorted(world.holds.items())},
        "same_kind": {
            task_type: {str(count): counts[count] for count in sorted(counts)}
            for task_type, counts in sorted(world.same_kind.items())
        },
        "cool_in_fridge": shares(world.cool_in_fridge, world.in_fridge),
        "inside": shares(world.inside, world.beside),
        "rooms": {name: room_summary(rooms[name]) for name in ROOMS.values()},
    }


def room_summary(room: Room) -> dict[str, Any]:
    kinds = sorted(room.receptacles)
    return {
        "games": room.games,
        "floor_plans": len(room.floor_plans),
        "receptacles": {kind: tally(plan[kind] for plan in room.floor_plans.values()) for kind in kinds},
        "openable": shares(room.openable, room.receptacles),
        "not_alone": shares({kind: room.receptacles[kind] - room.alone[kind] for kind in kinds}, room.receptacles),
        "neighbours": dict(sorted(room.neighbours.items())),
        "objects": {
            kind: {"0": room.games - counts.total()} | {str(count): counts[count] for count in sorted(counts)}
            for kind, counts in sorted(room.objects.items())
        },
        "places": {kind: dict(sorted(counts.items())) for kind, counts in sorted(room.places.items())},
        "twice": {
            kind: shares(counts, dict.fromkeys(counts, sum(places[kind] for places in room.places.values())))
            for kind, counts in sorted(room.twice.items())
        },
        "tasks": {task_type: dict(sorted(counts.items())) for task_type, counts in sorted(room.tasks.items())},
    }


def tally(counts: Iterable[int]) -> dict[str, int]:
    """How many floor plans have how many."""
    return {str(count): plans for count, plans in sorted(Counter(counts).items())}


def shares(part: Mapping[str, int], whole: Mapping[str, int]) -> dict[str, float]:
    """The shares that are not 0, to four places."""
    return {kind: round(part[kind] / whole[kind], 4) for kind in sorted(whole) if part.get(kind)}


def compact(value: Any, pad: str = "") -> str:
    """JSON that reads well in a diff: counts of one kind stay on one line."""
    if not isinstance(value, dict) or not any(isinstance(item, dict | list) for item in value.values()):
        return json.dumps(value)
    inner = ",\n".join(f"{pad} {json.dumps(key)}: {compact(item, pad + ' ')}" for key, item in value.items())
    return f"{{\n{inner}\n{pad}}}"


if __name__ == "__main__":
    main()
