"""Playing by hand in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from agentic_rl.games.expert import solve_from
from agentic_rl.games.interface import Episode, GameEntry, StepResult
from agentic_rl.games.simulator import SimulatedEpisode

KEYS = "Tab completes. Also: `actions` lists what can be done, `undo` takes one back, `hint`, `restart`, `quit`."


def play(entry: GameEntry, engine: str = "simulator") -> None:
    """Read commands until the game is won and left, or the input ends."""
    episode = entry.open(engine)
    try:
        _play(episode)
    finally:
        episode.close()


def _play(episode: Episode) -> None:
    result = episode.reset()
    done: list[str] = []
    solution = solve_from(episode) if isinstance(episode, SimulatedEpisode) else None
    least = None if solution is None else len(solution)
    print(f"{result.observation}\n\n{KEYS}")
    while True:
        _complete(("actions", "hint", "quit", "restart", "undo", *result.admissible_actions))
        try:
            command = " ".join(input("\n> ").split())
        except EOFError:
            print()
            return
        match command:
            case "":
                continue
            case "quit":
                return
            case "actions":
                print("\n".join(result.admissible_actions))
            case "hint":
                print(_hint(episode))
            case "undo" | "restart":
                if not done:
                    print("There is nothing to take back.")
                    continue
                taken_back = done.pop()
                if command == "restart":
                    done.clear()
                result = _replay(episode, done)
                print(f"Took back `{taken_back}`." if command == "undo" else result.observation)
            case _:
                before, result = result, episode.step(command)
                if command in before.admissible_actions:
                    done.append(command)
                print(result.observation)
                if result.won and not before.won:
                    shortest = f"; the shortest way takes {least}" if least is not None else ""
                    print(f"\nWon after {len(done)} commands{shortest}. Go on, `undo`, `restart` or `quit`.")


def _replay(episode: Episode, commands: Sequence[str]) -> StepResult:
    """Back to an earlier moment: games have no chance in them, so playing again gives it exactly."""
    result = episode.reset()
    for command in commands:
        result = episode.step(command)
    return result


def _hint(episode: Episode) -> str:
    if not isinstance(episode, SimulatedEpisode):
        return "Only the simulator can look ahead."
    rest = solve_from(episode)
    if rest is None:
        return "There is no way to win from here."
    return f"{rest[0]} ({len(rest)} to go)" if rest else "It is won."


def _complete(words: Sequence[str]) -> None:
    """Let Tab complete whole commands, spaces and all."""
    if not sys.stdin.isatty():
        return
    try:
        import readline
    except ImportError:  # a Python built without it
        return

    def complete(text: str, state: int) -> str | None:
        matches = [word for word in words if word.startswith(text)]
        return matches[state] if state < len(matches) else None

    readline.set_completer_delims("")
    readline.set_completer(complete)
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
