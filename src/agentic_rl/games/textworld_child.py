"""The process that plays one game at a time on TextWorld: one JSON line in, one JSON line out, until its input ends.

Run as `python -m agentic_rl.games.textworld_child` by `textworld_engine`, never by hand.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any, TextIO


def mend_eval_symbol() -> None:
    """Let TextWorld 1.7 evaluate its templates on CPython 3.13.

    It hands variables to `eval` by writing to `locals()`, which since PEP 667 is a copy that `eval` never sees.
    """
    from textworld.envs.pddl import textgen

    def derive(self: Any, context: Any = None) -> list[Any]:
        variables = (context or self.context)["variables"]
        return [textgen.TerminalSymbol(eval(self.expression, vars(textgen), dict(variables)))]

    textgen.EvalSymbol.derive = derive


def start(game_file: str) -> Any:
    """The game on TextWorld with ALFWorld's own names for things."""
    # ALFWorld creates the folder that this names as soon as it is imported; nothing is read from it here.
    os.environ["ALFWORLD_DATA"] = tempfile.gettempdir()
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos

    mend_eval_symbol()
    infos = textworld.EnvInfos(won=True, admissible_commands=True)
    return textworld.start(game_file, infos, wrappers=[AlfredDemangler(shuffle=False), AlfredInfos])


def shown(state: Any, done: bool) -> dict[str, Any]:
    """What the parent wants to know of a TextWorld state."""
    return {
        "observation": state["feedback"],
        "admissible": state["admissible_commands"],
        "won": bool(state["won"]),
        "done": bool(done),
    }


def serve(requests: TextIO, replies: TextIO) -> None:
    """Answer `["load", file]`, `["reset"]` and `["step", command]`; an exception is told and ends the process."""
    environment: Any = None
    for line in requests:
        reply: dict[str, Any]
        try:
            match json.loads(line):
                case ["load", game_file]:
                    environment = start(game_file)
                    reply = {}
                case ["step", command]:
                    state, _, done = environment.step(command)
                    reply = shown(state, done)
                case _:
                    state = environment.reset()
                    reply = shown(state, state["won"])
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        if "error" in reply:
            return


if __name__ == "__main__":
    # The planner prints on file descriptor 1: keep the pipe for replies alone.
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, pipe)
