"""The expert: a shortest solution, found by A* over the simulator's own states.

A trip to any place costs one command, so what is left to do can be bounded below almost exactly: fetch an object,
treat it, carry it, with the trips and closed doors in between. The bound (`_Remaining`) never exceeds the truth, which
is what makes the first solution found a shortest one; it is mostly equal to it, which is what makes the search short.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf

from agentic_rl.games.interface import GameEntry
from agentic_rl.games.simulator import TOOLS, Game, SimulatedEpisode, apply, is_won, receptacle_commands
from agentic_rl.games.world import State, World

MAX_DEPTH = 60
_HANDLING = {"take", "move", "clean", "heat", "cool", "use"}


def solve(game: Game, max_depth: int = MAX_DEPTH) -> tuple[str, ...] | None:
    """A shortest solution from the game's start, or None if there is none of at most `max_depth` commands."""
    return solve_from(game.episode(), max_depth)


def solve_from(
    episode: SimulatedEpisode, max_depth: int = MAX_DEPTH, *, rng: random.Random | None = None
) -> tuple[str, ...] | None:
    """A shortest way to win from where an episode stands; the episode itself does not move.

    Parameters
    ----------
    max_depth
        Longest solution looked for.
    rng
        Picks among equally short solutions; without it the choice is always the same.
    """
    world, start = episode.game.world, episode.state
    remaining = _Remaining(world)
    # A thing in the hand that is not wanted may have to be laid down anywhere; else only some places matter.
    places = remaining.places(start) if start.held is None or start.held in world.goal.objects else None
    names = {world.objects[o].name for o in (*world.goal.objects, *world.goal.lamps)}
    if start.held is not None:
        names.add(world.objects[start.held].name)
    trips = _trips(world, places)
    best = {start: 0}
    came_from: dict[State, tuple[State, str]] = {}
    queue: list[tuple[float, int, int, State]] = [(remaining(start), 0, 0, start)]
    order = 0
    while queue:
        bound, minus_depth, _, state = heappop(queue)
        depth = -minus_depth
        if bound > max_depth:
            return None
        if depth > best[state]:
            continue
        if is_won(world, state):
            return _path(came_from, state)
        children = list(_children(world, state, trips, names))
        if rng is not None:
            rng.shuffle(children)
        for command, child in children:
            if depth + 1 < best.get(child, inf):
                left = remaining(child)
                if left < inf:
                    best[child] = depth + 1
                    came_from[child] = state, command
                    order += 1
                    heappush(queue, (depth + 1 + left, -(depth + 1), order, child))
    return None


def expert_steps(entry: GameEntry, max_depth: int = MAX_DEPTH) -> int | None:
    """The number of commands in a shortest solution of a listed game; None if the simulator does not know the game."""
    episode = entry.open("simulator")
    try:
        if not isinstance(episode, SimulatedEpisode):
            return None
        solution = solve_from(episode, max_depth)
        return None if solution is None else len(solution)
    finally:
        episode.close()


def _path(came_from: dict[State, tuple[State, str]], state: State) -> tuple[str, ...]:
    commands = []
    while state in came_from:
        state, command = came_from[state]
        commands.append(command)
    return tuple(reversed(commands))


def _trips(world: World, places: set[int] | None) -> dict[int, str]:
    """One command for each place worth going to: all receptacles there are within reach at once."""
    return {
        place: f"go to {world.receptacles[here[0]].name}"
        for place, here in enumerate(world.receptacles_at)
        if here and (places is None or place in places)
    }


def _children(world: World, state: State, trips: dict[int, str], names: set[str]) -> Iterator[tuple[str, State]]:
    """Every command that can be part of a shortest solution. Closing, slicing and looking never help."""
    for place, command in trips.items():
        if place != state.place:
            yield command, State(place, *state[1:])
    for command in receptacle_commands(world, state):
        verb, *words = command.split()
        if verb == "open" or (verb in _HANDLING and f"{words[0]} {words[1]}" in names):
            yield command, apply(world, state, command)[0]


class _Remaining:
    """A lower bound on the number of commands still needed to win; infinite where it can never be."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.kind = world.goal.kind
        self.objects = world.goal.objects
        kinds = {world.objects[o].type for o in self.objects}
        self.targets = [r for r in world.goal.receptacles if kinds <= world.receptacles[r].accepts]
        self.tools = {one.place for one in world.receptacles if one.type in TOOLS.get(self.kind, ())}

    def __call__(self, state: State) -> float:
        if is_won(self.world, state):
            return 0
        if state.held is None or state.held in self.objects:
            return self._with_free_hand(state)
        return min((cost + self._with_free_hand(then) for cost, then in self._laid_down(state)), default=inf)

    def _with_free_hand(self, state: State) -> float:
        if self.kind == "two":
            return self._two(state)
        return min((cost + self._rest(state, o, place) for o, _, cost, place in self._fetched(state)), default=inf)

    def _laid_down(self, state: State) -> Iterator[tuple[int, State]]:
        """Ways to get rid of a held thing that is not wanted: commands, and the state after them."""
        assert state.held is not None
        kind = self.world.objects[state.held].type
        seen = set()
        for r, receptacle in enumerate(self.world.receptacles):
            door = self._closed(state, r)
            # What stands at one place differs only by its door, and by what opening it is good for.
            key = receptacle.place, door, r if door and self._matters(state, r) else None
            if kind in receptacle.accepts and key not in seen:
                seen.add(key)
                opened = state.opened | {r} if door else state.opened
                cost = (receptacle.place != state.place) + door + 1
                yield cost, state._replace(place=receptacle.place, held=None, opened=opened)

    def _matters(self, state: State, r: int) -> bool:
        return r in self.targets or not self.objects.isdisjoint(state.contents[r])

    def places(self, state: State) -> set[int]:
        """Where a solution may lead, given that nothing has to be laid down."""
        receptacles = self.world.receptacles
        wanted = self.objects | self.world.goal.lamps
        holding = {receptacles[r].place for r, members in enumerate(state.contents) if not wanted.isdisjoint(members)}
        return holding | self.tools | {receptacles[r].place for r in self.targets}

    def _closed(self, state: State, r: int) -> bool:
        return self.world.receptacles[r].openable and r not in state.opened

    def _sources(self, state: State) -> Iterator[tuple[int, int]]:
        for r, members in enumerate(state.contents):
            for o in members:
                if o in self.objects and self.world.objects[o].pickupable:
                    yield o, r

    def _fetched(self, state: State) -> Iterator[tuple[int, int | None, int, int]]:
        """Ways to get an object that counts into the hand: object, source, commands, and where the agent then is."""
        if state.held in self.objects:
            yield state.held, None, 0, state.place
        for o, r in self._sources(state):
            place = self.world.receptacles[r].place
            cost = (place != state.place) + self._closed(state, r) + 1 + (state.held is not None)
            yield o, r, cost, place

    def _rest(self, state: State, o: int, place: int) -> float:
        """What is left once `o` is held at `place`."""
        if self.kind == "light":
            return min(
                (
                    (self.world.receptacles[r].place != place) + (lamp not in state.toggled)
                    for r, members in enumerate(state.contents)
                    for lamp in members
                    if lamp in self.world.goal.lamps
                ),
                default=inf,
            )
        treated = self.kind == "put" or o in getattr(
            state, {"clean": "clean", "heat": "hot", "cool": "cool"}[self.kind]
        )
        if treated:
            return self._delivered(state, o, place)
        return min(((tool != place) + 1 + self._delivered(state, o, tool) for tool in self.tools), default=inf)

    def _delivered(self, state: State, o: int, place: int) -> float:
        """What is left once `o` is held at `place` and only has to lie in a target."""
        left = inf
        for r in self.targets:
            if o in state.contents[r]:
                return 0  # an object may lie in two receptacles: taken from one, it still lies in the other
            left = min(left, (self.world.receptacles[r].place != place) + self._closed(state, r) + 1)
        return left

    def _two(self, state: State) -> float:
        sources = list(self._sources(state))
        left = inf
        for r in self.targets:
            there = self.world.receptacles[r].place
            inside = self.objects.intersection(state.contents[r])
            first = [
                (o, source, cost + (place != there) + 1)
                for o, source, cost, place in self._fetched(state)
                if o not in inside
            ]
            door = self._closed(state, r)
            if inside:
                left = min(left, min((cost for *_, cost in first), default=inf) + door)
                continue
            for o, source, cost in first:
                for other, other_source in sources:
                    if other != o:
                        trip = 2 * (self.world.receptacles[other_source].place != there)
                        closed = other_source != source and self._closed(state, other_source)
                        left = min(left, cost + door + trip + closed + 2)
        return left
