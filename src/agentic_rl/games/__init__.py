"""Games: what is played. Files on disk, the exact simulator, TextWorld as the reference, and the expert.

Every game opens as an `Episode` (`reset`, `step`); every listed game is a `GameEntry`. No room here knows of tokens.
"""

from agentic_rl.games.engines import ENGINES, open_game, task_of
from agentic_rl.games.expert import solve, solve_from
from agentic_rl.games.interface import TASK_TYPES, Episode, GameEntry, StepResult
from agentic_rl.games.problem import UnknownGameError
from agentic_rl.games.simulator import Game, SimulatedEpisode, build_game, load_game, parse_game

__all__ = [
    "ENGINES",
    "TASK_TYPES",
    "Episode",
    "Game",
    "GameEntry",
    "SimulatedEpisode",
    "StepResult",
    "UnknownGameError",
    "build_game",
    "load_game",
    "open_game",
    "parse_game",
    "solve",
    "solve_from",
    "task_of",
]
