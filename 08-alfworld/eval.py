"""Evaluate the base model or a checkpoint on ALFWorld's held-out games: the published experiment 08-alfworld.

Plays every game of the held-out splits once, without skills, and writes a record a game and a summary. A game's reward
is the one of training: 1 for winning, less 0.1 for every invalid action.

    uv run --extra local python 08-alfworld/eval.py --preset laptop        # no account, no download, no GPU
    uv run --extra alfworld python 08-alfworld/eval.py --help
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_rl.config import Preset, option, parse_config, run_main
from agentic_rl.evaluation.config import LAPTOP, EvalConfig


@dataclass(frozen=True, kw_only=True)
class AlfworldEvalConfig(EvalConfig):
    """recipe 08"""

    max_episode_steps: int = option(50, minimum=1, help="turns an episode")
    max_assistant_tokens: int = option(2048, minimum=1, help="tokens an assistant turn")
    data_root: Path = option(
        Path("08-alfworld/datasets/alfworld"),
        metavar="DIR",
        help="the folder above json_2.1.1, json_2.1.1 itself, or one split",
    )
    output: Path = option(
        Path("08-alfworld/eval_results/eval.jsonl"),
        metavar="FILE",
        help="the results, JSON Lines; finished games are kept in FILE.partial until the last has ended, and the same "
        "command goes on with them if it was interrupted",
    )
    run_name: str = option("alfworld-eval", metavar="NAME", help="names the SwanLab run")
    run_dir: Path = option(Path("runs"), metavar="DIR", help="the folder of run directories that local:// paths name")
    swanlab_project: str = option("agentic-rl-lab-alfworld", metavar="NAME", help="SwanLab project")

    @property
    def turn_limit(self) -> int:
        return self.max_episode_steps

    @property
    def turn_tokens(self) -> int:
        return self.max_assistant_tokens


PRESETS = {
    "laptop": Preset(
        {**LAPTOP.values, "max_episode_steps": 12, "max_assistant_tokens": 40},
        {**LAPTOP.unless, "max_episode_steps": "data_root"},
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    config = parse_config(
        AlfworldEvalConfig, argv, prog="08-alfworld/eval.py", description=__doc__.split("\n\n")[0], presets=PRESETS
    )

    from agentic_rl.evaluation import run_evaluation
    from agentic_rl.rollout.trajectory import StopReason
    from agentic_rl.training.recipes import GroupMean

    return run_evaluation(config, reward=GroupMean().reward, turn_limit_reason=StopReason.MAX_STEPS)


if __name__ == "__main__":
    sys.exit(run_main(main))
