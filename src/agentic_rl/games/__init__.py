"""Games: what is played. Files on disk, the exact simulator, TextWorld as the reference, and the expert.

Every game opens as an `Episode` (`reset`, `step`); every listed game is a `GameEntry`. No room here knows of tokens.
"""

from agentic_rl.games.dataset import RELEASE, SPLITS, GameFile, count_by_split_and_type, discover, shuffled
from agentic_rl.games.engines import ENGINES, open_game, task_of
from agentic_rl.games.expert import expert_steps, solve, solve_from
from agentic_rl.games.interface import TASK_TYPES, Episode, GameEntry, StepResult
from agentic_rl.games.problem import UnknownGameError
from agentic_rl.games.simulator import Game, SimulatedEpisode, build_game, load_game, parse_game

__all__ = [
    "ENGINES",
    "RELEASE",
    "SPLITS",
    "TASK_TYPES",
    "Episode",
    "Game",
    "GameEntry",
    "GameFile",
    "SimulatedEpisode",
    "StepResult",
    "UnknownGameError",
    "build_game",
    "count_by_split_and_type",
    "discover",
    "expert_steps",
    "load_game",
    "open_game",
    "parse_game",
    "shuffled",
    "solve",
    "solve_from",
    "task_of",
]
