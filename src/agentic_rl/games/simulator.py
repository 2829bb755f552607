"""ALFWorld's text games, exact to the last character: every rule of play and every text.

Two places are not what a reader expects, and both are what the reference does. Only a held object can be examined: a
slip in the domain keeps its branch for visible objects from ever holding. And slicing asks where an object is
*recorded* to be (`State.lying`), not whether it is visible.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from agentic_rl.games.interface import StepResult
from agentic_rl.games.problem import parse_file_text, parse_problem, read_text
from agentic_rl.games.world import State, World, build_world

NOTHING_HAPPENS = "Nothing happens."
KNIVES = ("knifetype", "butterknifetype")
TOOLS = {
    "clean": ("sinktype", "sinkbasintype"),
    "heat": ("microwavetype",),
    "cool": ("fridgetype",),
}
HELP = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""


# What can be done ------------------------------------------------------------------------------------------------


def admissible_commands(world: World, state: State) -> tuple[str, ...]:
    """Every command that does something now, in plain string order."""
    here = sorted({"help", "inventory", "look", *receptacle_commands(world, state), *_hand_commands(world, state)})
    cut = bisect(here, "go to")
    return (*here[:cut], *world.go_commands[state.place], *here[cut:])


def receptacle_commands(world: World, state: State) -> Iterable[str]:
    """What the receptacles of this place offer: all of them are within reach, whichever the agent went to."""
    held = None if state.held is None else world.objects[state.held]
    for r in world.receptacles_at[state.place]:
        receptacle = world.receptacles[r]
        yield f"examine {receptacle.name}"
        if receptacle.openable:
            yield f"{'close' if r in state.opened else 'open'} {receptacle.name}"
        if not receptacle.openable or r in state.opened:
            if held is None:
                for o in state.contents[r]:
                    if world.objects[o].pickupable:
                        yield f"take {world.objects[o].name} from {receptacle.name}"
            elif held.type in receptacle.accepts:
                yield f"move {held.name} to {receptacle.name}"
        for o in state.contents[r]:
            if world.objects[o].toggleable:
                yield f"use {world.objects[o].name}"
        if held is not None:
            if held.cleanable and receptacle.type in TOOLS["clean"]:
                yield f"clean {held.name} with {receptacle.name}"
            if held.heatable and receptacle.type in TOOLS["heat"]:
                yield f"heat {held.name} with {receptacle.name}"
            if held.coolable and receptacle.type in TOOLS["cool"]:
                yield f"cool {held.name} with {receptacle.name}"


def _hand_commands(world: World, state: State) -> Iterable[str]:
    """What the held object offers."""
    if state.held is None:
        return
    held = world.objects[state.held]
    yield f"examine {held.name}"
    if held.type in KNIVES:
        for o in state.lying[state.place]:
            if world.objects[o].sliceable:
                yield f"slice {world.objects[o].name} with {held.name}"


# What it does, and what the game says ----------------------------------------------------------------------------


def go_to(world: World, state: State, r: int) -> tuple[State, str]:
    """To the receptacle's place."""
    receptacle = world.receptacles[r]
    state = State(receptacle.place, *state[1:])
    return state, f"You arrive at {receptacle.name}. {receptacle_text(world, state, r)}"


def open_(world: World, state: State, r: int) -> tuple[State, str]:
    """Open a door."""
    state = state._replace(opened=state.opened | {r})
    return state, f"You open the {world.receptacles[r].name}. {receptacle_text(world, state, r)}"


def close(world: World, state: State, r: int) -> tuple[State, str]:
    """Close a door."""
    return state._replace(opened=state.opened - {r}), f"You close the {world.receptacles[r].name}."


def take(world: World, state: State, o: int, r: int) -> tuple[State, str]:
    """Out of this receptacle only, and no longer recorded at this place only."""
    state = state._replace(
        held=o,
        contents=_replaced(state.contents, r, _without(state.contents[r], o)),
        lying=_replaced(state.lying, state.place, _without(state.lying[state.place], o)),
        taken=state.taken | {(o, r)},
    )
    return state, f"You pick up the {world.objects[o].name} from the {world.receptacles[r].name}."


def move(world: World, state: State, o: int, r: int) -> tuple[State, str]:
    """Into this receptacle, and recorded at this place as well."""
    state = state._replace(
        held=None,
        contents=_replaced(state.contents, r, _with(state.contents[r], o)),
        lying=_replaced(state.lying, state.place, _with(state.lying[state.place], o)),
        taken=state.taken - {(o, r)},
    )
    return state, f"You move the {world.objects[o].name} to the {world.receptacles[r].name}."


def clean(world: World, state: State, o: int, r: int) -> tuple[State, str]:
    """Clean for good; nothing is put into the sink."""
    state = state._replace(clean=state.clean | {o})
    return state, f"You clean the {world.objects[o].name} using the {world.receptacles[r].name}."


def heat(world: World, state: State, o: int, r: int) -> tuple[State, str]:
    """Hot, and no longer cool; the door does not matter."""
    state = state._replace(hot=state.hot | {o}, cool=state.cool - {o})
    return state, f"You heat the {world.objects[o].name} using the {world.receptacles[r].name}."


def cool(world: World, state: State, o: int, r: int) -> tuple[State, str]:
    """Cool, and no longer hot; the door does not matter."""
    state = state._replace(cool=state.cool | {o}, hot=state.hot - {o})
    return state, f"You cool the {world.objects[o].name} using the {world.receptacles[r].name}."


def use(world: World, state: State, o: int) -> tuple[State, str]:
    """On for good: a second use turns on again."""
    return state._replace(toggled=state.toggled | {o}), f"You turn on the {world.objects[o].name}."


def slice_(world: World, state: State, o: int, knife: int) -> tuple[State, str]:
    """Sliced, but still one object."""
    state = state._replace(sliced=state.sliced | {o})
    return state, f"You sliced the {world.objects[o].name} with the {world.objects[knife].name}."


EFFECTS: dict[str, Callable[..., tuple[State, str]]] = {
    "go": go_to,
    "open": open_,
    "close": close,
    "take": take,
    "move": move,
    "clean": clean,
    "heat": heat,
    "cool": cool,
    "use": use,
    "slice": slice_,
}


def apply(world: World, state: State, command: str) -> tuple[State, str]:
    """Carry out an admissible command."""
    match command.split():
        case [verb, kind, number]:
            name = f"{kind} {number}"
            if verb == "examine":
                return state, examine(world, state, name)
            return EFFECTS[verb](world, state, world.numbers[name])
        case ["go", "to", kind, number]:
            return go_to(world, state, world.numbers[f"{kind} {number}"])
        case [verb, kind, number, _, other_kind, other_number]:
            first, second = world.numbers[f"{kind} {number}"], world.numbers[f"{other_kind} {other_number}"]
            return EFFECTS[verb](world, state, first, second)
        case ["look"]:
            return state, look_text(world, state)
        case ["inventory"]:
            return state, inventory_text(world, state)
        case _:
            return state, HELP


def _replaced(rows: tuple[tuple[int, ...], ...], row: int, members: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return (*rows[:row], members, *rows[row + 1 :])


def _with(members: tuple[int, ...], o: int) -> tuple[int, ...]:
    return members if o in members else tuple(sorted((*members, o)))


def _without(members: tuple[int, ...], o: int) -> tuple[int, ...]:
    return tuple(member for member in members if member != o)


# Texts -----------------------------------------------------------------------------------------------------------


def joined(names: list[str], article: str = "a ") -> str:
    """`nothing`; `a x`; `a x, and a y`; `a x, a y, and a z`. Always `a`, never `an`."""
    if len(names) < 2:
        return article + names[0] if names else "nothing"
    return f"{article}{f', {article}'.join(names[:-1])}, and {article}{names[-1]}"


def receptacle_text(world: World, state: State, r: int) -> str:
    """What is seen on or in a receptacle."""
    receptacle = world.receptacles[r]
    if receptacle.openable and r not in state.opened:
        return f"The {receptacle.name} is closed."
    things = joined([world.objects[o].name for o in state.contents[r]])
    if receptacle.openable:
        return f"The {receptacle.name} is open. In it, you see {things}."
    return f"On the {receptacle.name}, you see {things}."


def object_text(world: World, state: State, o: int) -> str:
    """What is seen of a held object; the first rule that holds."""
    one = world.objects[o]
    if one.holds is not None:
        return f"This is a normal {one.name}. In it, you see {joined([world.objects[i].name for i in one.holds])}."
    sliced = " sliced" if o in state.sliced else ""
    warmth = "hot" if o in state.hot else "cool" if o in state.cool else ""
    adjective = " and ".join(filter(None, (warmth, "clean" if o in state.clean else "")))
    if adjective:
        if adjective == "cool" and not sliced:
            adjective = "cold"
        return f"This is a {adjective}{sliced} {one.name}."
    if one.toggleable and o in state.toggled:
        return f"This {one.name} is on."
    if sliced:
        return f"This is a sliced {one.name}."
    return f"There's nothing special about {one.name}."


def examine(world: World, state: State, name: str) -> str:
    """The held object, or a receptacle here."""
    if state.held is not None and world.objects[state.held].name == name:
        return object_text(world, state, state.held)
    return receptacle_text(world, state, world.numbers[name])


def inventory_text(world: World, state: State) -> str:
    """What is held."""
    if state.held is None:
        return "You are not carrying anything."
    return f"You are carrying: a {world.objects[state.held].name}."


def look_text(world: World, state: State) -> str:
    """Where the agent stands, and the floor: a thing lying here once for each receptacle here it was taken from."""
    here = world.receptacles_at[state.place]
    if not here:
        return middle_of_room([])
    facing = joined([world.receptacles[r].name for r in here], article="")
    floor = [world.objects[o].name for o, r in sorted(state.taken) if r in here and o in state.lying[state.place]]
    return f"You are facing the {facing}. Next to it, you see {joined(floor)}."


def middle_of_room(names: list[str]) -> str:
    """Where the game begins; looking there lists nothing."""
    return f"You are in the middle of a room. Looking quickly around you, you see {joined(names)}."


def intro_text(world: World) -> str:
    """The opening: every receptacle of the game, and the task."""
    room = middle_of_room([receptacle.name for receptacle in world.receptacles])
    return f"-= Welcome to TextWorld, ALFRED! =-\n\n{room}\n\n{world.task}"


# Winning ---------------------------------------------------------------------------------------------------------


def is_won(world: World, state: State) -> bool:
    """Whether the goal holds now. It may cease to hold again."""
    goal = world.goal
    if goal.kind == "light":
        return state.held in goal.objects and any(
            lamp in goal.lamps and lamp in state.toggled
            for r in world.receptacles_at[state.place]
            for lamp in state.contents[r]
        )
    if goal.kind == "two":
        return any(len(goal.objects.intersection(state.contents[r])) >= 2 for r in goal.receptacles)
    ready = goal.objects
    if goal.kind == "clean":
        ready = ready & state.clean
    elif goal.kind == "heat":
        ready = ready & state.hot
    elif goal.kind == "cool":
        ready = ready & state.cool
    return any(not ready.isdisjoint(state.contents[r]) for r in goal.receptacles)


# Play ------------------------------------------------------------------------------------------------------------

MAY_DECIDE = frozenset({"take", "move", "clean", "heat", "cool"})
MAY_DECIDE_LIGHT = frozenset({"take", "move", "use", "go"})
"""The verbs that can make the goal hold or cease to hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """A loaded game: immutable, and shared by all its episodes and by threads."""

    world: World
    start_text: str
    start_commands: tuple[str, ...]
    start_won: bool
    deciding: frozenset[str]

    @classmethod
    def of(cls, world: World) -> Game:
        """What every reset shows is made once."""
        start = world.start
        deciding = MAY_DECIDE_LIGHT if world.goal.kind == "light" else MAY_DECIDE
        commands = admissible_commands(world, start)
        return cls(world, intro_text(world), commands, is_won(world, start), deciding)

    @property
    def name(self) -> str:
        """Where the game came from."""
        return self.world.name

    @property
    def task(self) -> str:
        """The opening's last sentence, `Your task is to: …`."""
        return self.world.task

    @property
    def walkthrough(self) -> tuple[str, ...]:
        """The stored solution; empty if there is none."""
        return self.world.walkthrough

    def episode(self) -> SimulatedEpisode:
        """A new play of this game, at its start."""
        return SimulatedEpisode(self)


class SimulatedEpisode:
    """One play of a game. It goes on past a win, as TextWorld's bare environment does."""

    __slots__ = ("_commands", "_lists", "_won", "game", "state")

    blocking = False

    def __init__(self, game: Game) -> None:
        self.game = game
        self.reset()

    def reset(self) -> StepResult:
        """Back to the start."""
        game = self.game
        self.state = game.world.start
        self._commands = game.start_commands
        self._won = game.start_won
        # What is admissible changes only where the agent stands, so a place's lists stay true while it is away.
        self._lists: dict[int, dict[int | None, tuple[str, ...]]] = {}
        return self._result(game.start_text)

    def step(self, action: str) -> StepResult:
        """Carry out a command; anything not admissible changes nothing."""
        command = action.strip()
        if command not in self._commands:
            return self._result(NOTHING_HAPPENS)
        before = self.state
        self.state, text = apply(self.game.world, before, command)
        if self.state is not before:
            self._follow(command.partition(" ")[0])
        return self._result(text)

    def copy(self) -> SimulatedEpisode:
        """An independent episode in the same state."""
        twin = object.__new__(SimulatedEpisode)
        twin.game, twin.state, twin._commands, twin._won = self.game, self.state, self._commands, self._won
        twin._lists = {}
        return twin

    def close(self) -> None:
        """Nothing to release."""

    def _follow(self, verb: str) -> None:
        """Bring the list of commands and the verdict up to date after a verb that changed the state."""
        world, state = self.game.world, self.state
        if verb in self.game.deciding:
            self._won = is_won(world, state)
        if verb in ("clean", "heat", "cool", "use", "slice"):
            return
        if verb != "go":
            self._lists.pop(state.place, None)
        lists = self._lists.setdefault(state.place, {})
        commands = lists.get(state.held)
        if commands is None:
            commands = lists[state.held] = admissible_commands(world, state)
        self._commands = commands

    def _result(self, text: str) -> StepResult:
        return StepResult(text, self._commands, self._won, self._won, float(self._won))


def load_game(path: str | Path) -> Game:
    """Read one `game.tw-pddl` file.

    Raises
    ------
    GameFileError
        The file is damaged; the line says where.
    UnknownGameError
        The file is sound, but its domain, grammar or goal is not ALFWorld's.
    """
    return parse_game(read_text(Path(path)), str(path))


def parse_game(text: str, name: str) -> Game:
    """A game from the text of its file; `name` stands in errors."""
    return Game.of(build_world(parse_file_text(text, name)))


def build_game(problem: str, task: str, name: str, walkthrough: tuple[str, ...] = ()) -> Game:
    """A game from a PDDL problem alone, of ALFWorld's domain and grammar, and the sentence `Your task is to: …`."""
    return Game.of(build_world(parse_problem(problem, task, name, walkthrough)))
