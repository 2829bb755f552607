"""Households: a room, a task that can be done in it, and its objects put away."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from agentic_rl.games.generate.difficulty import Level, level
from agentic_rl.games.generate.draw import Draw, fingerprint
from agentic_rl.games.generate.layout import SEEN_LAYOUTS, UNSEEN_LAYOUTS, Layout, layout, thing_id
from agentic_rl.games.generate.measured import Room, measured

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
    """The household that belongs to this key. It can be solved by construction: see `_put_away`."""
    draw = Draw("household", task_type, difficulty, unseen, *key)
    rooms = measured().rooms_for(task_type)
    while True:
        room = draw.weighted(rooms)
        index = draw.below(UNSEEN_LAYOUTS if unseen else SEEN_LAYOUTS)
        plan = layout(room, difficulty, index, unseen=unseen)
        if options := _feasible(measured().rooms[room], plan, task_type):
            kind, target = draw.weighted(options).split()
            words = {"object": kind.lower(), "target": target.lower()}
            task = Task(task_type, kind, target, draw.one_of(SENTENCES[task_type]).format(**words))
            return _furnished(draw, measured().rooms[room], plan, task, level(difficulty))


def _feasible(room: Room, plan: Layout, task_type: str) -> dict[str, int]:
    """The tasks of this type that the room has what it takes for, as often as the real games set them."""
    kinds = set(plan.kinds)
    options = {}
    for pair, count in room.tasks.get(task_type, {}).items():
        kind, target = pair.split()
        places = kinds & room.places[kind].keys()
        if task_type == "look_at_obj_in_light":
            fits = bool(places and kinds & room.places[target].keys())
        else:
            fits = target in kinds and kind in measured().holds[target]
            fits = fits and bool(places - {target} if task_type in STARTS_OUTSIDE else places)
        if fits:
            options[pair] = count
    return options


def _furnished(draw: Draw, room: Room, plan: Layout, task: Task, level: Level) -> Household:
    things = [_put_away(draw, room, plan, task, level, kind) for kind in _kinds(draw, room, plan, task, level)]
    used: set[str] = set()
    named = [
        Thing(
            kind,
            thing_id(draw, kind, _near(draw, plan, places[0]), used),
            places,
            _is_cool(draw, plan, task, kind, places),
        )
        for kind, places in things
    ]
    ordered = tuple(sorted(named, key=lambda thing: thing.id.lower()))
    return Household(task, plan, ordered, _inside(draw, ordered) if level.quirks else ())


def _kinds(draw: Draw, room: Room, plan: Layout, task: Task, level: Level) -> list[str]:
    """What there is: the task's objects first, then the rest, thinned out to the level's size."""
    available = set(plan.kinds)
    needed = [task.object] * task.needs
    if task.type == "look_at_obj_in_light":
        needed.append(task.target)
    others = []
    for kind, tally in room.objects.items():
        count = draw.weighted(tally)
        if kind == task.object:
            spare = count if level.distractors is None else min(count, task.needs + level.distractors)
            others += [kind] * (spare - task.needs)
        elif not available.isdisjoint(room.places[kind]):
            others += [kind] * (count - needed.count(kind))
    if level.objects is not None:
        bound = max(draw.between(*level.objects) - len(needed), 0)
        if len(others) > bound:
            draw.shuffle(others)
            del others[bound:]
    return needed + others


def _put_away(draw: Draw, room: Room, plan: Layout, task: Task, level: Level, kind: str) -> tuple[str, tuple[int, ...]]:
    """Choose where an object lies.

    Whatever lies in a receptacle can be fetched (doors open, hands are free), what the task's type asks to do with it
    can be done wherever sink, microwave and fridge stand, and the target takes it. So a task is possible as soon as its
    objects lie somewhere, and not done yet as long as they do not lie in the target as the goal wants them.
    """
    counts = room.places[kind]
    number = {name: plan.kinds.count(name) for name in counts}
    weights = {
        index: counts[receptacle.kind] / number[receptacle.kind]
        for index, receptacle in enumerate(plan.receptacles)
        if receptacle.kind in counts
    }
    if kind == task.object:
        if task.type in STARTS_OUTSIDE:
            weights = {index: weight for index, weight in weights.items() if plan.kinds[index] != task.target}
        within_sight = {
            index: weight * (level.hidden if plan.receptacles[index].openable else 1.0)
            for index, weight in weights.items()
        }
        weights = within_sight if any(within_sight.values()) else weights
    place = draw.weighted(weights)
    if kind == task.object or not level.quirks:
        return kind, (place,)
    return kind, (place, *_second_place(draw, room, plan, place))


def _second_place(draw: Draw, room: Room, plan: Layout, place: int) -> list[int]:
    """In the real games, what stands on a coffee machine also stands on the counter under it, and more of the kind."""
    first = plan.receptacles[place]
    for kind, share in room.twice.get(first.kind, {}).items():
        if draw.chance(share):
            others = [i for i, item in enumerate(plan.receptacles) if item.kind == kind and i != place]
            together = [i for i in others if plan.receptacles[i].location == first.location]
            return [draw.one_of(together or others)] if others else []
    return []


def _near(draw: Draw, plan: Layout, place: int) -> tuple[int, int, int]:
    x, y, z = plan.receptacles[place].position
    return x + draw.between(-30, 30), y + draw.below(20), z + draw.between(-30, 30)


def _is_cool(draw: Draw, plan: Layout, task: Task, kind: str, places: tuple[int, ...]) -> bool:
    share = measured().cool_in_fridge.get(kind, 0.0)
    if not share or "Fridge" not in {plan.kinds[place] for place in places}:
        return False
    return draw.chance(share) and not (task.type == "pick_cool_then_place_in_recep" and task.target == "Fridge")


def _inside(draw: Draw, things: tuple[Thing, ...]) -> tuple[tuple[int, int], ...]:
    """Which things lie in bowls, cups and pots; each in one at most, and none in one that lies in another."""
    shares = measured().inside
    pairs: list[tuple[int, int]] = []
    by_place: dict[int, list[int]] = {}
    for index, thing in enumerate(things):
        by_place.setdefault(thing.places[0], []).append(index)
    for members in by_place.values():
        taken: set[int] = set()
        for inner, outer in permutations(members, 2):
            share = shares.get(f"{things[inner].kind} {things[outer].kind}")
            if share and inner not in taken and outer not in taken and draw.chance(share):
                pairs.append((inner, outer))
                taken.add(inner)
    return tuple(sorted(pairs))
