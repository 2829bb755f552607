"""Evaluate the base model or a checkpoint on ALFWorld's held-out games: the published experiment 09-AgentOPSD.

Plays every game of the held-out splits once, without skills, and writes a record a game and a summary. A game's reward
is the one of training: 1 for winning. The teacher and its skills have no part in it.

    uv run --extra local python 09-AgentOPSD/eval.py --preset laptop        # no account, no download, no GPU
    uv run --extra alfworld python 09-AgentOPSD/eval.py --help
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_rl.config import Preset, option, parse_config, run_main
from agentic_rl.evaluation.config import LAPTOP, EvalConfig


@dataclass(frozen=True, kw_only=True)
class AgentOPSDEvalConfig(EvalConfig):
    """recipe 09"""

    max_turns: int = option(50, minimum=1, help="turns an episode")
    max_action_tokens: int = option(512, minimum=1, help="tokens an assistant turn")
    max_trajectory_tokens: int = option(14_336, minimum=64, help="token limit of a game's whole dialogue")
    data_root: Path = option(
        Path("09-AgentOPSD/datasets/alfworld"),
        metavar="DIR",
        help="the folder above json_2.1.1, json_2.1.1 itself, or one split",
    )
    output: Path = option(
        Path("09-AgentOPSD/eval_results/eval.jsonl"),
        metavar="FILE",
        help="the results, JSON Lines; finished games are kept in FILE.partial until the last has ended, and the same "
        "command goes on with them if it was interrupted",
    )
    run_name: str = option("agentopsd-eval", metavar="NAME", help="names the SwanLab run")
    run_dir: Path = option(Path("runs"), metavar="DIR", help="the folder of run directories that local:// paths name")
    swanlab_project: str = option("agentic-rl-lab-agentopsd", metavar="NAME", help="SwanLab project")

    @property
    def turn_limit(self) -> int:
        return self.max_turns

    @property
    def turn_tokens(self) -> int:
        return self.max_action_tokens


PRESETS = {
    "laptop": Preset(
        {**LAPTOP.values, "max_turns": 12, "max_action_tokens": 40},
        {**LAPTOP.unless, "max_turns": "data_root"},
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    config = parse_config(
        AgentOPSDEvalConfig, argv, prog="09-AgentOPSD/eval.py", description=__doc__.split("\n\n")[0], presets=PRESETS
    )

    from agentic_rl.evaluation import run_evaluation
    from agentic_rl.rollout.trajectory import StopReason, Trajectory

    def reward(trajectory: Trajectory) -> float:
        return float(trajectory.won)

    return run_evaluation(config, reward=reward, turn_limit_reason=StopReason.MAX_TURNS)


if __name__ == "__main__":
    sys.exit(run_main(main))
