"""Rooms: which receptacles stand where. A room belongs to the seen or to the unseen world, for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

from agentic_rl.games.generate.difficulty import Level, level
from agentic_rl.games.generate.draw import Draw, Weights, fingerprint
from agentic_rl.games.generate.measured import Room, measured

SEEN_LAYOUTS = 100
UNSEEN_LAYOUTS = 50
"""So many rooms of each kind and difficulty; ALFWorld has 27 of a kind to learn in and 1 to be tested in."""

UNSEEN_SHARE = 4
"""One in so many sets of receptacles belongs to the unseen rooms."""

ROOM_NUMBERS = {"kitchen": 1, "living room": 2, "bedroom": 3, "bathroom": 4}
CORE = {
    "kitchen": ("Fridge", "Microwave", "SinkBasin"),
    "living room": ("Sofa",),
    "bedroom": ("Bed",),
    "bathroom": ("SinkBasin", "Toilet"),
}
"""What a room keeps however small it gets, so that every task type has somewhere to be done."""

Position = tuple[int, int, int]
"""Hundredths of a metre: left to right, height, back to front."""


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A place for objects. `location` is where one stands to reach it."""

    kind: str
    id: str
    location: str
    position: Position
    openable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A room without its objects; receptacles are sorted as the games list them, `by_kind` has their indices."""

    room: Room
    number: int
    start: str
    receptacles: tuple[Receptacle, ...]
    by_kind: Mapping[str, tuple[int, ...]]


@lru_cache(maxsize=4096)
def layout(room: str, difficulty: int, index: int, *, unseen: bool) -> Layout:
    """Room `index` of its kind: the same for every seed.

    Whether a room is an unseen one hangs on its set of receptacles alone. So no unseen room has the receptacles of a
    seen one, at whatever difficulty, and no list of rooms has to be kept.
    """
    number = difficulty * 10_000 + ROOM_NUMBERS[room] * 1_000 + index + (SEEN_LAYOUTS if unseen else 0)
    draw, numbers, size = Draw("layout", number), measured().rooms[room], level(difficulty)
    kinds = _kinds(draw, numbers, size)
    while is_unseen(room, kinds) != unseen:
        kinds = _kinds(draw, numbers, size)
    start, receptacles = _arranged(draw, numbers, size, kinds)
    by_kind = {kind: tuple(i for i, item in enumerate(receptacles) if item.kind == kind) for kind in sorted(set(kinds))}
    return Layout(numbers, number, start, receptacles, by_kind)


def is_unseen(room: str, kinds: Iterable[str]) -> bool:
    """Whether a room with these receptacles is kept for `valid_unseen`."""
    return fingerprint("room", room, sorted(kinds)) % UNSEEN_SHARE == 0


def _kinds(draw: Draw, room: Room, level: Level) -> list[str]:
    """As many receptacles of each kind as in real rooms, thinned out to the level's size."""
    left = Counter({kind: draw.weighted(tally) for kind, tally in room.receptacles.items()})
    for kind in CORE[room.name]:
        left[kind] = max(left[kind], 1)
    if level.receptacles is None:
        return list(left.elements())
    bound = draw.between(*level.receptacles)
    kept = Counter(CORE[room.name])
    left -= kept
    while left and kept.total() < bound:
        # A kind that is there already counts for less: a small room has a cabinet and a shelf before two cabinets.
        kind = draw.weighted(Weights({kind: sqrt(count) / (1 + kept[kind]) ** 2 for kind, count in left.items()}))
        kept[kind] += 1
        left -= Counter([kind])
    return list(kept.elements())


def _arranged(draw: Draw, room: Room, level: Level, kinds: list[str]) -> tuple[str, tuple[Receptacle, ...]]:
    """Give every receptacle a position, a location and perhaps a door."""
    used: set[str] = set()
    start = _location(draw, (draw.between(-200, 200), 0, draw.between(-200, 200)), used)
    order = list(kinds)
    draw.shuffle(order)
    receptacles: list[Receptacle] = []
    alone: dict[Receptacle, str] = {}
    for kind in order:
        position = (draw.between(-400, 400), draw.between(4, 210), draw.between(-400, 400))
        beside = _neighbour(draw, room, kind, alone)
        if beside is None:
            location = _location(draw, position, used)
        else:
            del alone[beside]
            location = beside.location
            x, y, z = beside.position
            position = (x + draw.between(-40, 40), draw.between(max(4, y - 60), y + 60), z + draw.between(-40, 40))
        openable = draw.chance(_share_openable(room, level, kind))
        receptacle = Receptacle(kind, thing_id(draw, kind, position, used), location, position, openable)
        receptacles.append(receptacle)
        if beside is None:
            alone[receptacle] = kind
    return start, tuple(sorted(receptacles, key=lambda receptacle: receptacle.id.lower()))


def _neighbour(draw: Draw, room: Room, kind: str, alone: dict[Receptacle, str]) -> Receptacle | None:
    """The receptacle to share a location with, if any."""
    # Of two that share a place either may be the one that asks, so each asks with the chance that makes this come out.
    if not draw.chance(1 - sqrt(1 - room.not_alone.get(kind, 0.0))):
        return None
    pairs = {other: (min(kind, name), max(kind, name)) for other, name in alone.items()}
    weights = Weights({other: room.neighbours.get(pair, 0) for other, pair in pairs.items()})
    return draw.weighted(weights) if weights else None


def _share_openable(room: Room, level: Level, kind: str) -> float:
    share = room.openable.get(kind, 0.0)
    # A fridge or a microwave without a door would be a strange thing.
    return share if share == 1.0 and kind in CORE["kitchen"] else share * level.closed


def _location(draw: Draw, position: Position, used: set[str]) -> str:
    """A spot nobody has used yet, near the position, with ALFRED's view direction and angle behind it."""
    x, _, z = position
    while True:
        spot = (x // 25 + draw.between(-2, 2), z // 25 + draw.between(-2, 2), draw.below(4), draw.one_of(_ANGLES))
        location = "loc" + "".join(f"_bar_{'_minus_' * (n < 0)}{abs(n)}" for n in spot)
        if location not in used:
            used.add(location)
            return location


_ANGLES = (-30, -15, 0, 15, 30, 45, 60)
_BASINS = {"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}


def thing_id(draw: Draw, kind: str, position: Position, used: set[str]) -> str:
    """An id as ALFRED writes it, `Mug_bar__plus_01_dot_53_…`, that nothing else has."""
    x, y, z = position
    while True:
        coordinates = "".join(
            f"_bar__{'minus' if n < 0 else 'plus'}_{abs(n) // 100:02}_dot_{abs(n) % 100:02}" for n in (x, y, z)
        )
        basin = f"_bar_{kind}" if kind in _BASINS else ""
        name = f"{_BASINS.get(kind, kind)}{coordinates}{basin}"
        if name not in used:
            used.add(name)
            return name
        x, z = x + draw.between(-9, 9), z + draw.between(-9, 9)
