"""Compare generated households with the real training games, and measure how hard each difficulty is.

    python scripts/compare_households.py "$ALFWORLD_DATA"

prints the tables of `docs/households.md`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from agentic_rl.games import discover
from agentic_rl.games.expert import solve, solve_from
from agentic_rl.games.generate import LEVELS, household_games
from agentic_rl.games.interface import TASK_TYPES
from agentic_rl.games.simulator import Game, load_game

ROOMS = {1: "kitchen", 2: "living room", 3: "bedroom", 4: "bathroom"}
TURNS = 30


@dataclass(frozen=True)
class Look:
    """One game in figures.

    `actions` is the mean number of admissible commands along the shortest solution. `search` is how many commands
    someone needs who does not know what lies where: receptacle after receptacle in random order until everything the
    task needs has been seen, then the shortest way on.
    """

    room: str
    task_type: str
    receptacles: int
    closed: int
    objects: int
    same_kind: int
    actions: float
    solution: int
    opens: bool
    search: int
    search_20: bool
    search_50: bool


FIGURES = {
    "receptacles": "receptacles",
    "closed": "of them closed at the start",
    "objects": "objects",
    "same_kind": "objects of the task's kind",
    "actions": "admissible commands a step",
    "solution": "commands of the shortest solution",
    "opens": "share of solutions that open a door",
    "search": "commands of a search in random order",
    "search_20": "share of searches done within 20",
    "search_50": "share of searches done within 50",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="the folder that holds json_2.1.1")
    parser.add_argument("--count", type=int, default=1200, help="generated games a difficulty")
    parser.add_argument("--plays", type=int, default=2, help="random plays a game")
    arguments = parser.parse_args()

    real = [
        look(load_game(entry.path), ROOMS[max(floor_plan_of(entry.game_id) // 100, 1)], entry.task_type)
        for entry in discover(arguments.data, ["train"])
    ]
    games = {
        difficulty: [(entry, entry.load()) for entry in household_games("train", arguments.count, difficulty, seed=0)]
        for difficulty in LEVELS
    }
    generated = {
        difficulty: [
            look(game, ROOMS[floor_plan_of(entry.game_id) // 1000 % 10], entry.task_type) for entry, game in loaded
        ]
        for difficulty, loaded in games.items()
    }
    print("\n".join(by_difficulty(real, generated)), end="\n\n")
    print("\n".join(by_room(real, generated[5])), end="\n\n")
    print("\n".join(by_task(real, generated)), end="\n\n")
    print(
        "\n".join(
            random_play(
                {difficulty: [game for _, game in loaded] for difficulty, loaded in games.items()}, arguments.plays
            )
        )
    )


def floor_plan_of(game_id: str) -> int:
    return int(game_id.partition("/")[0].rpartition("-")[2])


def look(game: Game, room: str, task_type: str) -> Look:
    """Measure one game."""
    solution = solve(game)
    if solution is None:
        raise SystemExit(f"{game.name}: no solution")
    world, goal = game.world, game.world.goal
    episode = game.episode()
    actions = [len(episode.reset().admissible_actions)]
    actions += [len(episode.step(command).admissible_actions) for command in solution[:-1]]
    searched = search(game)
    in_sight = {o for contents in world.start.contents for o in contents}
    return Look(
        room=room,
        task_type=task_type,
        receptacles=len(world.receptacles),
        closed=sum(receptacle.openable for receptacle in world.receptacles),
        objects=len(in_sight),
        same_kind=len(goal.objects & in_sight),
        actions=mean(actions),
        solution=len(solution),
        opens=any(command.startswith("open") for command in solution),
        search=searched,
        search_20=searched <= 20,
        search_50=searched <= 50,
    )


def search(game: Game) -> int:
    """Play a game without knowing where its objects are, and count the commands."""
    rng = random.Random(game.name)
    world, goal = game.world, game.world.goal
    episode = game.episode()
    admissible = episode.reset().admissible_actions
    order = list(range(len(world.receptacles)))
    rng.shuffle(order)
    seen: set[int] = set()
    steps = 0
    wanted = 2 if goal.kind == "two" else 1
    while len(seen & goal.objects) < wanted or (goal.lamps and not seen & goal.lamps):
        receptacle = order.pop()
        for command in (f"go to {world.receptacles[receptacle].name}", f"open {world.receptacles[receptacle].name}"):
            # Where one stands already, or what has no door, is skipped.
            if command in admissible:
                admissible = episode.step(command).admissible_actions
                steps += 1
        seen.update(episode.state.contents[receptacle])
    rest = solve_from(episode)
    return steps + len(rest or ())


def by_difficulty(real: list[Look], generated: dict[int, list[Look]]) -> Iterable[str]:
    """Means over the six task types alike, because the real games have more of some types than of others."""
    yield "| | " + " | ".join(f"difficulty {difficulty}" for difficulty in generated) + " | real |"
    yield "|---|" + "--:|" * (len(generated) + 1)
    for figure in FIGURES:
        cells = [balanced(looks, figure) for looks in (*generated.values(), real)]
        yield f"| {FIGURES[figure]} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |"


def balanced(looks: list[Look], figure: str) -> float:
    return float(mean(mean(getattr(look, figure) for look in looks if look.task_type == type_) for type_ in TASK_TYPES))


def by_room(real: list[Look], generated: list[Look]) -> Iterable[str]:
    figures = ("receptacles", "closed", "objects", "same_kind", "actions", "solution", "search")
    yield "| generated / real | " + " | ".join(figure.replace("_", " ") for figure in figures) + " |"
    yield "|---|" + "--:|" * len(figures)
    for room in ROOMS.values():
        means = [
            [mean(getattr(look, figure) for look in looks if look.room == room) for looks in (generated, real)]
            for figure in figures
        ]
        yield f"| {room} | " + " | ".join(f"{made:.1f} / {found:.1f}" for made, found in means) + " |"


def by_task(real: list[Look], generated: dict[int, list[Look]]) -> Iterable[str]:
    yield "| solution length | " + " | ".join(f"difficulty {difficulty}" for difficulty in generated) + " | real |"
    yield "|---|" + "--:|" * (len(generated) + 1)
    for task_type in TASK_TYPES:
        cells = [
            mean(look.solution for look in looks if look.task_type == task_type)
            for looks in (*generated.values(), real)
        ]
        yield f"| {task_type} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |"


def random_play(games: dict[int, list[Game]], plays: int) -> Iterable[str]:
    """How often uniformly random admissible commands (without `help`) win."""
    yield "| random play wins within | " + " | ".join(f"difficulty {difficulty}" for difficulty in games) + " |"
    yield "|---|" + "--:|" * len(games)
    steps = {
        difficulty: [random_steps(game, play) for game in loaded for play in range(plays)]
        for difficulty, loaded in games.items()
    }
    for limit in (10, 20, TURNS):
        cells = [mean(taken <= limit for taken in counts) for counts in steps.values()]
        yield f"| {limit} commands | " + " | ".join(f"{100 * cell:.1f} %" for cell in cells) + " |"


def random_steps(game: Game, play: int) -> int:
    """The number of commands until the first win; one more than `TURNS` if there is none."""
    rng = random.Random(f"{game.name} {play}")
    episode = game.episode()
    result = episode.reset()
    for step in range(1, TURNS + 1):
        result = episode.step(rng.choice([action for action in result.admissible_actions if action != "help"]))
        if result.won:
            return step
    return TURNS + 1


if __name__ == "__main__":
    main()
