"""A house of ours in which every rare rule of the game comes up, with one task of each kind.

The real games meet some rules once in hundreds: an object in two receptacles, a place recorded that is not where the
object lies, a receptacle's number above nine. Here they are all within a few steps. `record_rare_house.py` played it on
TextWorld; `rare_house.jsonl.xz` is what TextWorld said.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

from agentic_rl.games import Game, build_game
from agentic_rl.games.problem import GOALS, TASK_PREFIX

RECORD = Path(__file__).with_name("rare_house.jsonl.xz")

# Raw id, type, place, and whether it has a door. Three stand at the worktop; eleven cabinets show how names sort.
RECEPTACLES = (
    ("CounterTop_bar_b", "CounterTop", "worktop", False),
    ("CounterTop_bar_a", "CounterTop", "worktop", False),
    ("Drawer_bar_k", "Drawer", "worktop", True),
    ("Fridge_bar_1", "Fridge", "cold_corner", True),
    ("GarbageCan_bar_1", "GarbageCan", "cold_corner", False),
    ("Microwave_bar_1", "Microwave", "hot_corner", True),
    ("Sink_bar_1_bar_SinkBasin", "SinkBasin", "wet_corner", False),
    ("Bathtub_bar_1_bar_SinkBasin", "BathtubBasin", "bath", False),
    ("Sink_bar_2", "Sink", "bath", False),
    ("Desk_bar_1", "Desk", "study", False),
    ("Drawer_bar_d", "Drawer", "study", True),
    ("Safe_bar_1", "Safe", "vault", True),
    *((f"Cabinet_bar_{number:02}", "Cabinet", f"wall_{number // 2}", True) for number in range(1, 12)),
)

# Raw id, type, the receptacles it is in, the places it is recorded at, and what can be done with it.
FOOD = "pickupable sliceable cleanable heatable coolable"
OBJECTS = (
    ("Apple_bar_1", "Apple", ["CounterTop_bar_a"], ["worktop"], FOOD),
    ("Apple_bar_2", "Apple", ["Fridge_bar_1"], ["cold_corner"], FOOD),
    ("Apple_bar_3", "Apple", ["CounterTop_bar_a", "CounterTop_bar_b"], ["worktop"], FOOD),
    ("Potato_bar_1", "Potato", ["Desk_bar_1"], ["wet_corner"], FOOD),  # recorded where it does not lie
    ("Tomato_bar_1", "Tomato", ["CounterTop_bar_b", "Cabinet_bar_01"], ["worktop", "wall_0"], FOOD),
    ("Bread_bar_1", "Bread", ["CounterTop_bar_b"], ["worktop"], "sliceable"),  # cannot be taken
    ("Lettuce_bar_1", "Lettuce", [], ["cold_corner"], "pickupable sliceable"),  # lies in nothing
    ("Egg_bar_1", "Egg", ["Fridge_bar_1"], ["cold_corner"], "pickupable cleanable heatable coolable"),
    ("Mug_bar_1", "Mug", ["Drawer_bar_k"], ["worktop"], "pickupable cleanable heatable coolable isReceptacleObject"),
    ("Bowl_bar_1", "Bowl", ["CounterTop_bar_a"], ["worktop"], "pickupable cleanable isReceptacleObject"),
    ("Spoon_bar_1", "Spoon", ["CounterTop_bar_a"], ["worktop"], "pickupable cleanable"),
    ("Spoon_bar_2", "Spoon", ["Cabinet_bar_05"], ["wall_2"], "pickupable cleanable"),
    ("Knife_bar_1", "Knife", ["CounterTop_bar_b"], ["worktop"], "pickupable cleanable"),
    ("ButterKnife_bar_1", "ButterKnife", ["Drawer_bar_d"], ["study"], "pickupable"),
    ("Pencil_bar_1", "Pencil", ["Drawer_bar_d"], ["study"], "pickupable"),
    ("Pencil_bar_2", "Pencil", ["Safe_bar_1"], ["vault"], "pickupable"),
    ("Pencil_bar_3", "Pencil", ["Desk_bar_1", "Drawer_bar_d"], ["study"], "pickupable"),
    ("DeskLamp_bar_1", "DeskLamp", ["Desk_bar_1"], ["study"], "toggleable"),
    ("DeskLamp_bar_2", "DeskLamp", ["Cabinet_bar_11"], ["wall_5"], "toggleable"),  # behind a door
    ("Chair_bar_1", "Chair", [], ["study"], ""),
    ("Vase_bar_1", "Vase", ["Cabinet_bar_02"], ["wall_1"], "pickupable"),  # fits nowhere once taken
)
INSIDE = (("Spoon_bar_2", "Bowl_bar_1"), ("Egg_bar_1", "Bowl_bar_1"))
COOL = ("Egg_bar_1", "Apple_bar_2")
START = "hall"

SMALL = ("Apple", "Potato", "Tomato", "Egg", "Mug", "Bowl", "Spoon", "Knife", "ButterKnife", "Lettuce")
HOLDS = {
    "CounterTop": SMALL,
    "Drawer": ("Spoon", "Knife", "ButterKnife", "Pencil", "Mug"),
    "Fridge": ("Apple", "Potato", "Tomato", "Egg", "Mug", "Bowl"),
    "GarbageCan": ("Apple", "Egg", "Pencil"),
    "Microwave": ("Apple", "Potato", "Mug"),
    "SinkBasin": SMALL,
    "Desk": ("Pencil", "Mug", "Knife"),
    "Safe": ("Pencil",),
    "Cabinet": ("Mug", "Bowl", "Spoon"),
}

TASKS = {
    "put": ("put a mug in desk.", "MugType", "DeskType"),
    "clean": ("put a clean apple in countertop.", "AppleType", "CounterTopType"),
    "heat": ("heat some apple and put it in garbagecan.", "AppleType", "GarbageCanType"),
    "cool": ("put a cool apple in countertop.", "AppleType", "CounterTopType"),
    "two": ("find two spoon and put them in drawer.", "SpoonType", "DrawerType"),
    "light": ("look at pencil under the desklamp.", "PencilType", "DeskLampType"),
}
"""Kind of goal to the sentence, the type to handle, and the type of receptacle or lamp."""


def problem_of(kind: str) -> str:
    """The house as a PDDL problem with one kind of goal."""
    _, wanted, target = TASKS[kind]
    facts = [f"(atLocation agent1 loc_bar_{START})"]
    for raw, of_type, place, door in RECEPTACLES:
        facts += [f"(receptacleType {raw} {of_type}Type)", f"(receptacleAtLocation {raw} loc_bar_{place})"]
        facts += [f"(openable {raw})"] * door
    for raw, of_type, receptacles, places, abilities in OBJECTS:
        facts.append(f"(objectType {raw} {of_type}Type)")
        facts += [f"(inReceptacle {raw} {receptacle})" for receptacle in receptacles]
        facts += [f"(objectAtLocation {raw} loc_bar_{place})" for place in places]
        facts += [f"({ability} {raw})" for ability in abilities.split()]
    facts += [f"(canContain {outer}Type {inner}Type)" for outer, inners in HOLDS.items() for inner in inners]
    facts += [f"(inReceptacleObject {inner} {outer})" for inner, outer in INSIDE]
    facts += [f"(isCool {raw})" for raw in COOL]
    declared = {"agent": ["agent1"], "location": [f"loc_bar_{START}"], "otype": [], "rtype": []}
    declared["location"] += sorted(
        {f"loc_bar_{place}" for _, _, place, _ in RECEPTACLES}
        | {f"loc_bar_{p}" for *_, places, _ in OBJECTS for p in places}
    )
    declared["otype"] = sorted(
        {f"{of_type}Type" for _, of_type, *_ in OBJECTS} | {f"{o}Type" for o in sum(HOLDS.values(), ())}
    )
    declared["rtype"] = sorted({f"{of_type}Type" for _, of_type, *_ in RECEPTACLES})
    declared["receptacle"] = [raw for raw, *_ in RECEPTACLES]
    declared["object"] = [raw for raw, *_ in OBJECTS]
    objects = "\n".join(f"    {raw} - {kind}" for kind, raws in declared.items() for raw in raws)
    goal = GOALS[kind].replace("OBJECT", wanted).replace("TARGET", target)
    init = "\n".join(f"    {fact}" for fact in facts)
    sections = f"(:domain alfred)\n(:objects\n{objects}\n)\n(:init\n{init}\n)\n(:goal {goal})"
    return f"(define (problem rare_house)\n{sections}\n)\n"


def rare_game(kind: str) -> Game:
    """The house on the simulator."""
    return build_game(problem_of(kind), TASK_PREFIX + TASKS[kind][0], f"rare house, {kind}")


def recorded_plays() -> list[dict[str, Any]]:
    """What TextWorld said: `kind`, `play`, and `shown` = [command or None, observation, admissible, won] a step."""
    return [json.loads(line) for line in lzma.decompress(RECORD.read_bytes()).splitlines()]
