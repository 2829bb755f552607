"""One game in words: what stands where, what wins, and how short a solution can be."""

from __future__ import annotations

from agentic_rl.errors import ConfigError
from agentic_rl.games.expert import solve_from
from agentic_rl.games.interface import GameEntry
from agentic_rl.games.simulator import SimulatedEpisode
from agentic_rl.games.world import Object, World

_ABILITIES = ("pickupable", "toggleable", "sliceable", "cleanable", "heatable", "coolable")


def description(entry: GameEntry) -> str:
    """A page about one game."""
    episode = entry.open("simulator")
    if not isinstance(episode, SimulatedEpisode):
        episode.close()
        raise ConfigError(f"{entry.location} is a game of another kind; only TextWorld can play it")
    world = episode.game.world
    solution = solve_from(episode)
    lines = [entry.game_id, f"  {entry.location}", "", world.task, f"Wins: {_goal(world)}", ""]
    lines.append(f"{len(world.receptacles)} receptacles at {sum(map(bool, world.receptacles_at))} places:")
    for here in world.receptacles_at:
        for position, r in enumerate(here):
            receptacle = world.receptacles[r]
            door = " (closed)" if receptacle.openable else ""
            inside = ", ".join(world.objects[o].name for o in world.start.contents[r]) or "nothing"
            lines.append(f"  {'-' if position == 0 else ' '} {receptacle.name}{door}: {inside}")
    lines += ["", f"{len(world.objects)} objects; those that can be handled:"]
    for one in sorted(world.objects, key=lambda one: one.name):
        if one.pickupable or one.toggleable:
            lines.append(f"    {one.name}: {', '.join(_abilities(one))}")
    lines += ["", "Stored walkthrough: " + (f"{len(world.walkthrough)} commands" if world.walkthrough else "none")]
    lines.append("Shortest solution: " + ("none found" if solution is None else f"{len(solution)} commands"))
    lines += [f"  > {command}" for command in solution or ()]
    return "\n".join(lines)


def _abilities(one: Object) -> list[str]:
    return [ability for ability in _ABILITIES if getattr(one, ability)]


def _goal(world: World) -> str:
    goal = world.goal
    objects = ", ".join(sorted(world.objects[o].name for o in goal.objects)) or "(there is none)"
    if goal.kind == "light":
        lamps = ", ".join(sorted(world.objects[o].name for o in goal.lamps))
        return f"hold one of [{objects}] where a lamp that has been used stands: [{lamps}]"
    targets = ", ".join(sorted(world.receptacles[r].name for r in goal.receptacles)) or "(there is none)"
    state = {"clean": " while it is clean", "heat": " while it is hot", "cool": " while it is cool"}.get(goal.kind, "")
    many = "two of" if goal.kind == "two" else "one of"
    where = "the same one of" if goal.kind == "two" else "one of"
    return f"{many} [{objects}] in {where} [{targets}]{state}"
