"""Households: a room, a task that can be done in it, and its objects put away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

from agentic_rl.games.generate.difficulty import Level, level
from agentic_rl.games.generate.draw import Draw, Weights, fingerprint
from agentic_rl.games.generate.layout import SEEN_LAYOUTS, UNSEEN_LAYOUTS, Layout, Position, layout, thing_id
from agentic_rl.games.generate.measured import measured

SENTENCES: dict[str, tuple[str, str]] = {
    "pick_and_place_simple": ("put some {object} on {target}.", "put a {object} in {target}."),
    "look_at_obj_in_light": ("look at {object} under the {target}.", "examine the {object} with the {target}."),
    "pick_clean_then_place_in_recep": (
        "put a clean {object} in {target}.",
        "clean some {object} and put it in {target}.",
    ),
    "pick_heat_then_place_in_recep": ("put a hot {object} in {target}.", "heat some {object} and put it in {target}."),
    "pick_cool_then_place_in_recep": ("put a cool {object} in {target}.", "cool some {object} and put it in {target}."),
    "pick_two_obj_and_place": ("put two {object} in {target}.", "find two {object} and put them in {target}."),
}
"""How ALFWorld words each task; it uses both forms equally often."""

STARTS_OUTSIDE = ("pick_and_place_simple", "pick_two_obj_and_place")
"""Tasks whose objects never start in a receptacle of the target's kind: they would be done already, or half done."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done: `target` is a kind of receptacle, or of lamp for `look_at_obj_in_light`."""

    type: str
    object: str
    target: str
    sentence: str

    @property
    def needs(self) -> int:
        return 2 if self.type == "pick_two_obj_and_place" else 1


@dataclass(frozen=True, slots=True)
class Thing:
    """One object and the receptacles it lies in (indices into the layout's), nearly always one."""

    kind: str
    id: str
    places: tuple[int, ...]
    cool: bool


@dataclass(frozen=True, slots=True)
class Household:
    """Everything a game file says; things are sorted as the games list them.

    Attributes
    ----------
    inside
        Pairs of indices into `things`: the first lies in the second, a bowl or a pot.
    """

    task: Task
    layout: Layout
    things: tuple[Thing, ...]
    inside: tuple[tuple[int, int], ...]

    def fingerprint(self) -> int:
        """Equal for households that play alike, whatever the coordinates in their ids."""
        receptacles = self.layout.receptacles
        locations = list(dict.fromkeys(receptacle.location for receptacle in receptacles))
        room = [(item.kind, item.openable, locations.index(item.location)) for item in receptacles]
        things = [(thing.kind, thing.places, thing.cool) for thing in self.things]
        return fingerprint(self.task.sentence, room, things, self.inside)


def draw_household(task_type: str, difficulty: int, *, unseen: bool, key: tuple[object, ...]) -> Household:
    """The household that belongs to this key. It can be solved by construction: see `_places`."""
    draw = Draw("household", task_type, difficulty, unseen, *key)
    while True:
        room = draw.weighted(measured().rooms_by_task[task_type])
        index = draw.below(UNSEEN_LAYOUTS if unseen else SEEN_LAYOUTS)
        plan = layout(room, difficulty, index, unseen=unseen)
        if options := _feasible(plan, task_type):
            kind, target = draw.weighted(options)
            words = {"object": kind.lower(), "target": target.lower()}
            task = Task(task_type, kind, target, draw.one_of(SENTENCES[task_type]).format(**words))
            return _furnished(draw, plan, task, level(difficulty))


@lru_cache(maxsize=4096)
def _feasible(plan: Layout, task_type: str) -> Weights[tuple[str, str]]:
    """The tasks of this type that the room has what it takes for, as often as the real games set them."""
    options = {}
    for (kind, target), count in plan.room.tasks.get(task_type, {}).items():
        places = plan.by_kind.keys() & plan.room.places[kind].keys()
        if task_type == "look_at_obj_in_light":
            fits = bool(plan.by_kind.keys() & plan.room.places[target].keys())
        else:
            fits = target in plan.by_kind and kind in measured().holds[target]
        if task_type in STARTS_OUTSIDE:
            places -= {target}
        if fits and places:
            options[kind, target] = count
    return Weights(options)


def _furnished(draw: Draw, plan: Layout, task: Task, level: Level) -> Household:
    used: set[str] = set()
    things = []
    for kind in _kinds(draw, plan, task, level):
        if kind == task.object:
            places = [draw.weighted(_places(plan, kind, task, level.hidden))]
        else:
            places = [draw.weighted(_places(plan, kind))]
            if level.quirks and "pickupable" in measured().objects[kind]:
                places += _second_place(draw, plan, places[0])
        name = thing_id(draw, kind, _near(draw, plan.receptacles[places[0]].position), used)
        things.append(Thing(kind, name, tuple(places), _is_cool(draw, plan, task, kind, places)))
    things.sort(key=lambda thing: thing.id.lower())
    return Household(task, plan, tuple(things), _inside(draw, things) if level.quirks else ())


def _kinds(draw: Draw, plan: Layout, task: Task, level: Level) -> list[str]:
    """What there is: the task's objects first, then the rest, thinned out to the level's size."""
    needed = [task.object] * task.needs
    if task.type == "look_at_obj_in_light":
        needed.append(task.target)
    most = plan.room.objects[task.object].keys[-1]
    spare = min(draw.weighted(measured().same_kind[task.type]), most) - task.needs
    others = [task.object] * (spare if level.distractors is None else min(spare, level.distractors))
    for kind, tally in plan.room.objects.items():
        count = draw.weighted(tally) - needed.count(kind)
        if kind != task.object and count > 0 and _places(plan, kind):
            others += [kind] * count
    if level.objects is not None:
        draw.shuffle(others)
        del others[max(draw.between(*level.objects) - len(needed), 0) :]
    return needed + others


@lru_cache(maxsize=65536)
def _places(plan: Layout, kind: str, task: Task | None = None, hidden: float = 1.0) -> Weights[int]:
    """Where an object may lie; `task` if it is of the kind that the task is about.

    Whatever lies in a receptacle can be fetched (doors open, hands are free), what the task's type asks to do with it
    can be done in any room of its kind, and the target takes it. So a task is possible as soon as its objects lie
    somewhere, and not done yet as long as they do not lie in the target as the goal wants them.
    """
    counts = plan.room.places[kind]
    weights = {
        index: counts[holder] / len(indices)
        for holder, indices in plan.by_kind.items()
        if holder in counts and not (task and task.type in STARTS_OUTSIDE and holder == task.target)
        for index in indices
    }
    out_of_sight = {index for index in weights if plan.receptacles[index].openable}
    within_sight = Weights({i: weight * (hidden if i in out_of_sight else 1.0) for i, weight in weights.items()})
    return within_sight or Weights(weights)


def _second_place(draw: Draw, plan: Layout, place: int) -> list[int]:
    """In the real games, what stands on a coffee machine also stands on the counter under it, and more of the kind."""
    first = plan.receptacles[place]
    for kind, share in plan.room.twice.get(first.kind, {}).items():
        if draw.chance(share):
            others = [index for index in plan.by_kind.get(kind, ()) if index != place]
            together = [index for index in others if plan.receptacles[index].location == first.location]
            return [draw.one_of(together or others)] if others else []
    return []


def _near(draw: Draw, position: Position) -> Position:
    x, y, z = position
    return x + draw.between(-30, 30), y + draw.below(20), z + draw.between(-30, 30)


def _is_cool(draw: Draw, plan: Layout, task: Task, kind: str, places: list[int]) -> bool:
    share = measured().cool_in_fridge.get(kind, 0.0)
    if not share or plan.by_kind.get("Fridge", ()) != (places[0],):
        return False
    return draw.chance(share) and not (task.type == "pick_cool_then_place_in_recep" and task.target == "Fridge")


def _inside(draw: Draw, things: Sequence[Thing]) -> tuple[tuple[int, int], ...]:
    """Which things lie in bowls, cups and pots; each in one at most, and none in one that lies in another."""
    shares = measured().inside
    pairs: list[tuple[int, int]] = []
    by_place: dict[int, list[int]] = {}
    for index, thing in enumerate(things):
        by_place.setdefault(thing.places[0], []).append(index)
    for members in by_place.values():
        taken: set[int] = set()
        for inner, outer in permutations(members, 2):
            share = shares.get((things[inner].kind, things[outer].kind))
            if share and inner not in taken and outer not in taken and draw.chance(share):
                pairs.append((inner, outer))
                taken.add(inner)
    return tuple(sorted(pairs))
