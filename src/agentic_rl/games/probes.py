"""Scripted play for the rules that random play hardly ever meets.

Each probe is a list of commands made for one game on the simulator: slicing, hot and cold texts, the floor list, an
object in two receptacles, a property won and spoilt, a win that a lamp completes. Played on both engines they show a
difference that thousands of random steps would miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentic_rl.games.expert import solve_from
from agentic_rl.games.simulator import KNIVES, TOOLS, Game
from agentic_rl.games.world import Object


class Impossible(Exception):  # noqa: N818 - not an error: this game has nothing for this probe
    """The game has no object or place for the probe."""


class Script:
    """Plays a game while it writes down the commands; every command must be admissible."""

    def __init__(self, game: Game) -> None:
        self.world = game.world
        self.episode = game.episode()
        self.commands: list[str] = []

    def do(self, *commands: str) -> None:
        """Carry out commands as they stand."""
        for command in commands:
            if command not in self.episode.step("").admissible_actions:
                raise Impossible
            self.episode.step(command)
            self.commands.append(command)

    def try_(self, *commands: str) -> None:
        """Type commands that need not be admissible."""
        for command in commands:
            self.episode.step(command)
            self.commands.append(command)

    def reach(self, r: int) -> None:
        """Stand before a receptacle, with its door open."""
        receptacle = self.world.receptacles[r]
        if receptacle.place != self.episode.state.place:
            self.do(f"go to {receptacle.name}")
        if receptacle.openable and r not in self.episode.state.opened:
            self.do(f"open {receptacle.name}")

    def take(self, o: int, r: int) -> None:
        self.reach(r)
        self.do(f"take {self.object(o)} from {self.receptacle(r)}")

    def put(self, r: int) -> None:
        """Lay down what is held."""
        held = self.episode.state.held
        if held is None:
            raise Impossible
        self.reach(r)
        self.do(f"move {self.object(held)} to {self.receptacle(r)}")

    def put_down(self) -> None:
        """Lay down what is held wherever it may lie, here if that is possible."""
        held = self.episode.state.held
        if held is None:
            return
        fitting = [r for r, one in enumerate(self.world.receptacles) if self.world.objects[held].type in one.accepts]
        if not fitting:
            raise Impossible
        self.put(min(fitting, key=lambda r: self.world.receptacles[r].place != self.episode.state.place))

    def treat(self, verb: str) -> int:
        """Clean, heat or cool what is held, and look at it; gives the receptacle that did it."""
        held = self.episode.state.held
        tools = [r for r, one in enumerate(self.world.receptacles) if one.type in TOOLS[verb]]
        if held is None or not tools:
            raise Impossible
        place = self.world.receptacles[tools[0]].place
        if place != self.episode.state.place:
            self.do(f"go to {self.receptacle(tools[0])}")
        self.do(f"{verb} {self.object(held)} with {self.receptacle(tools[0])}", f"examine {self.object(held)}")
        return tools[0]

    def object(self, o: int) -> str:
        return self.world.objects[o].name

    def receptacle(self, r: int) -> str:
        return self.world.receptacles[r].name

    def where(self, wanted: Callable[[int], bool]) -> tuple[int, int]:
        """The first (object, receptacle) such that the object can be taken from there."""
        for r, members in enumerate(self.episode.state.contents):
            for o in members:
                if self.world.objects[o].pickupable and wanted(o):
                    return o, r
        raise Impossible


def probe_scripts(game: Game) -> dict[str, list[str]]:
    """Every probe that this game has something for: its name and its commands from the start."""
    scripts = {}
    for probe in PROBES:
        script = Script(game)
        try:
            probe(script)
        except Impossible:
            continue
        scripts[probe.__name__] = script.commands
    return scripts


def start_of_game(script: Script) -> None:
    """What can be said and typed before the first trip."""
    r = script.receptacle(0)
    script.try_("look", "inventory", "help", " look ", "Look", "", f"examine {r}", f"open {r}", f"take x from {r}")
    script.try_(f"go  to {r}", f"Go to {r}", f"go to {r}.", f"\tgo to {r}\n")


def treatments(script: Script) -> None:
    """Every adjective: clean, hot, cold, and their sums; the later of heat and cool wins; each is offered again."""
    o, r = script.where(lambda o: all((_one(script, o).cleanable, _one(script, o).heatable, _one(script, o).coolable)))
    script.take(o, r)
    script.do(f"examine {script.object(o)}", "inventory")
    for verb in ("heat", "heat", "cool", "heat", "clean", "heat", "cool", "clean", "cool"):
        script.treat(verb)
    script.put_down()
    script.do("look")


def hot_then_cold(script: Script) -> None:
    """Without cleaning, which would hide that the one undoes the other."""
    o, r = script.where(lambda o: _one(script, o).heatable and _one(script, o).coolable)
    script.take(o, r)
    for verb in ("cool", "heat", "cool"):
        tool = script.treat(verb)
        if script.world.receptacles[tool].openable:
            script.do(f"open {script.receptacle(tool)}", f"close {script.receptacle(tool)}")


def cool_at_first(script: Script) -> None:
    """What the file says is cool is cool, and counts where a cool thing is wanted."""
    goal, cool = script.world.goal, script.world.start.cool
    o, r = script.where(lambda o: o in cool and (o in goal.objects or cool.isdisjoint(goal.objects)))
    script.take(o, r)
    script.do(f"examine {script.object(o)}")
    targets = [target for target in goal.receptacles if _accepts(script, target, o)]
    if o in goal.objects and targets:
        script.put(targets[0])


def untreated(script: Script) -> None:
    """An object of the goal's type in the goal's receptacle, but not cleaned, heated or cooled."""
    goal = script.world.goal
    if goal.kind not in TOOLS:
        raise Impossible
    o, r = script.where(lambda o: o in goal.objects and o not in script.world.start.cool)
    target = next((t for t in goal.receptacles if t != r and _accepts(script, t, o)), None)
    if target is None:
        raise Impossible
    script.take(o, r)
    script.put(target)
    script.take(o, target)
    script.treat(goal.kind)
    script.put(target)


def sliced(script: Script) -> None:
    """Slice, take, and treat what was sliced."""
    _slice_something(script, *script.where(lambda o: _one(script, o).type == KNIVES[0]))
    for verb in ("cool", "heat", "clean", "cool"):
        script.treat(verb)


def sliced_clean(script: Script) -> None:
    """Sliced, with the other kind of knife, and clean, without hot or cool."""
    _slice_something(script, *script.where(lambda o: _one(script, o).type == KNIVES[1]))
    script.treat("clean")


def sliced_when_hot(script: Script) -> None:
    """Treat an object, put it back, and slice it: the slices are still hot."""
    for o, r in _takeable(script):
        if _one(script, o).sliceable and _one(script, o).heatable and _accepts(script, r, o):
            script.take(o, r)
            script.treat("heat")
            script.put(r)
            script.take(*script.where(lambda o: _one(script, o).type in KNIVES))
            _slice_at(script, o, script.world.receptacles[r].place)
            script.put_down()
            script.take(o, r)
            script.do(f"examine {script.object(o)}")
            return
    raise Impossible


def sliced_elsewhere(script: Script) -> None:
    """Slice where an object is recorded to be, although it lies elsewhere or was carried off; not where it lies."""
    recorded = list(_recorded_elsewhere(script))
    knife, knife_at = script.where(lambda o: _one(script, o).type in KNIVES)
    lying = [(o, r) for o, r in _takeable(script) if o in dict(recorded)]
    if lying:
        o, r = lying[0]
        script.take(knife, knife_at)
        script.reach(r)
        script.try_(f"slice {script.object(o)} with {script.object(knife)}")
        script.put_down()
        script.take(o, r)
        script.put_down()
    script.take(*script.where(lambda o: o == knife))
    for o, place in recorded:
        _slice_at(script, o, place)
    if not recorded:
        raise Impossible


def floor(script: Script) -> None:
    """Carry an object through the receptacles of one place: the floor list names it once for each that it left."""

    def others(o: int, r: int) -> list[int]:
        here = script.world.receptacles_at[script.world.receptacles[r].place]
        return [other for other in here if other != r and _accepts(script, other, o)]

    o, r = max(_takeable(script), key=lambda pair: len(others(*pair)), default=(0, 0))
    ways = others(o, r)[::-1]
    if not ways:
        raise Impossible
    for way in (*ways, ways[-1]):
        script.take(o, r)
        script.do("look")
        script.put(way)
        script.do("look")
        r = way


def back_again(script: Script) -> None:
    """Take and put back: the floor list forgets it."""
    for o, r in _takeable(script):
        if _accepts(script, r, o):
            script.take(o, r)
            script.put(r)
            script.do("look")
            script.take(o, r)
            script.try_(f"examine {script.object(o)}", f"take {script.object(o)} from {script.receptacle(r)}")
            return
    raise Impossible


def in_two(script: Script) -> None:
    """An object in two receptacles: taken from one it still lies in the other, and can be taken again."""
    for o, r in _takeable(script):
        others = [n for n, members in enumerate(script.episode.state.contents) if n != r and o in members]
        if others:
            script.take(o, r)
            script.do(f"examine {script.receptacle(r)}")
            script.put_down()
            script.do("look")
            script.take(o, others[0])
            script.do("look")
            script.put_down()
            script.do("look")
            return
    raise Impossible


def doors(script: Script) -> None:
    """Open, close, and open again; a held object over a closed door."""
    openable = [r for r, one in enumerate(script.world.receptacles) if one.openable]
    if not openable:
        raise Impossible
    name = script.receptacle(openable[0])
    script.reach(openable[0])
    script.do(f"close {name}", f"examine {name}", f"open {name}", "look")
    for o, r in _takeable(script):
        inside = [n for n in openable if _accepts(script, n, o)]
        if inside:
            script.take(o, r)
            script.put(inside[0])
            script.do(f"close {script.receptacle(inside[0])}")
            script.try_(f"take {script.object(o)} from {script.receptacle(inside[0])}")
            script.reach(inside[0])
            script.do(f"take {script.object(o)} from {script.receptacle(inside[0])}")
            return


def hollow(script: Script) -> None:
    """A bowl or a pot in the hand says what is in it, whatever was done to it."""
    o, r = script.where(lambda o: _one(script, o).holds is not None)
    script.take(o, r)
    script.do(f"examine {script.object(o)}")
    if _one(script, o).cleanable:
        script.treat("clean")


def lamps(script: Script) -> None:
    """Use a lamp twice, hold the wrong and the right thing by it, use it again."""
    lamp, r = _lamp(script)
    wrong = script.where(lambda o: o not in script.world.goal.objects)
    script.do(f"go to {script.receptacle(r)}", f"use {script.object(lamp)}", f"use {script.object(lamp)}")
    for thing in (wrong, script.where(lambda o: o in script.world.goal.objects)):
        script.take(*thing)
        if script.episode.state.place != script.world.receptacles[r].place:
            script.do(f"go to {script.receptacle(r)}")
        script.do(f"use {script.object(lamp)}")
        script.put_down()


def lamp_first(script: Script) -> None:
    """Light first, fetch the object, and win by coming back; leaving loses it again."""
    lamp, r = _lamp(script)
    place = script.world.receptacles[r].place
    goal = script.world.goal
    if lamp not in goal.lamps:
        raise Impossible
    away = [(o, at) for o, at in _takeable(script) if o in goal.objects and script.world.receptacles[at].place != place]
    if not away:
        raise Impossible
    script.do(f"go to {script.receptacle(r)}", f"use {script.object(lamp)}")
    script.take(*away[0])
    script.do(f"go to {script.receptacle(r)}", "look", f"go to {script.receptacle(away[0][1])}", "inventory")


def win_and_undo(script: Script) -> None:
    """Win as the expert does; where the last command laid something down, undo that and win again."""
    solution = solve_from(script.episode) or ()
    script.do(*solution, "look")
    if solution and solution[-1].startswith("move "):
        _, *thing, _, kind, number = solution[-1].split()
        script.do(f"take {' '.join(thing)} from {kind} {number}", "look", solution[-1], "look", "inventory")


def spoilt(script: Script) -> None:
    """For heat and cool: the other treatment on the way spoils it; a second one mends it."""
    other = {"heat": "cool", "cool": "heat", "clean": "heat"}.get(script.world.goal.kind)
    solution = solve_from(script.episode) or ()
    if other is None or not solution:
        raise Impossible
    before = next(n for n, command in enumerate(solution) if command.startswith(script.world.goal.kind))
    script.do(*solution[: before + 1])
    script.treat(other)
    script.do(*(solve_from(script.episode) or ()), "look")


def two_apart(script: Script) -> None:
    """Two objects of the goal's type in two different receptacles do not win; in one they do."""
    goal = script.world.goal
    if len(goal.receptacles) < 2 or len(goal.objects) < 2:
        raise Impossible
    first, at = script.where(lambda o: o in goal.objects)
    script.take(first, at)
    script.put(goal.receptacles[0])
    second, at = script.where(lambda o: o in goal.objects and o != first)
    script.take(second, at)
    script.put(goal.receptacles[1])
    script.take(second, goal.receptacles[1])
    script.put(goal.receptacles[0])
    script.do("look")


PROBES: tuple[Callable[[Script], None], ...] = (
    start_of_game,
    treatments,
    hot_then_cold,
    cool_at_first,
    untreated,
    sliced,
    sliced_clean,
    sliced_when_hot,
    sliced_elsewhere,
    floor,
    back_again,
    in_two,
    doors,
    hollow,
    lamps,
    lamp_first,
    win_and_undo,
    spoilt,
    two_apart,
)


def _one(script: Script, o: int) -> Object:
    return script.world.objects[o]


def _accepts(script: Script, r: int, o: int) -> bool:
    return script.world.objects[o].type in script.world.receptacles[r].accepts


def _takeable(script: Script) -> Iterator[tuple[int, int]]:
    for r, members in enumerate(script.episode.game.world.start.contents):
        for o in members:
            if script.world.objects[o].pickupable:
                yield o, r


def _lamp(script: Script) -> tuple[int, int]:
    for r, members in enumerate(script.episode.state.contents):
        for o in members:
            if script.world.objects[o].toggleable:
                return o, r
    raise Impossible


def _recorded_elsewhere(script: Script) -> Iterator[tuple[int, int]]:
    """Sliceable objects that are recorded at a place where they lie in no receptacle."""
    for place, members in enumerate(script.world.start.lying):
        for o in members:
            inside = [r for r in script.world.receptacles_at[place] if o in script.world.start.contents[r]]
            if script.world.objects[o].sliceable and script.world.receptacles_at[place] and not inside:
                yield o, place


def _slice_at(script: Script, o: int, place: int) -> None:
    """Slice with the knife in hand, leave, and slice again."""
    here = script.receptacle(script.world.receptacles_at[place][0])
    away = script.receptacle(next(r for r, one in enumerate(script.world.receptacles) if one.place != place))
    if place != script.episode.state.place:
        script.do(f"go to {here}")
    command = f"slice {script.object(o)} with {script.object(script.episode.state.held or 0)}"
    script.do(command, command, "look", f"go to {away}", f"go to {here}", command)


def _slice_something(script: Script, knife: int, knife_at: int) -> None:
    """Slice an object, lay the knife down, and take the object."""
    for o, r in _takeable(script):
        place = script.world.receptacles[r].place
        if _one(script, o).sliceable and o in script.world.start.lying[place]:
            script.take(knife, knife_at)
            script.reach(r)
            _slice_at(script, o, place)
            script.put_down()
            script.take(o, r)
            script.do(f"examine {script.object(o)}")
            return
    raise Impossible
