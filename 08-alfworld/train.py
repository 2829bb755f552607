"""Train an agent on ALFWorld with group-relative advantages: the published experiment 08-alfworld.

An update plays `--games-per-batch` games, `--group-size` times each, with the weights frozen. A trajectory earns
1 for winning, less 0.1 for every invalid action; its advantage is what it earned above its group's mean, and every
token it sampled carries that advantage. One PPO step on the LoRA follows: the ratio of the new to the sampling
probability, clipped to [0.8, 1.2], times the advantage, averaged over the sampled tokens of the batch.

    uv run --extra local python 08-alfworld/train.py --preset laptop        # no account, no download, no GPU
    uv run --extra alfworld python 08-alfworld/train.py --help

Method: docs in 08-alfworld/README.md; ALFWorld arXiv 2010.03768, GRPO 2402.03300, PPO 1707.06347.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_rl.config import Preset, option, parse_config, run_main
from agentic_rl.training.config import LAPTOP, TrainConfig


@dataclass(frozen=True, kw_only=True)
class AlfworldConfig(TrainConfig):
    """recipe 08: group-relative advantage"""

    games_per_batch: int = option(8, minimum=1, help="games an update")
    max_episode_steps: int = option(50, minimum=1, help="turns an episode")
    max_assistant_tokens: int = option(2048, minimum=1, help="tokens an assistant turn")
    invalid_action_penalty: float = option(0.1, minimum=0, help="taken from the reward for every invalid action")
    data_root: Path = option(
        Path("08-alfworld/datasets/alfworld"),
        metavar="DIR",
        help="the folder above json_2.1.1, json_2.1.1 itself, or one split",
    )
    run_name: str = option(
        "alfworld-agent-rl-qwen35-4b", metavar="NAME", help="names the run directory, checkpoints and SwanLab run"
    )
    swanlab_project: str = option("agentic-rl-lab-alfworld", metavar="NAME", help="SwanLab project")

    @property
    def games_per_update(self) -> int:
        return self.games_per_batch

    @property
    def turn_limit(self) -> int:
        return self.max_episode_steps

    @property
    def turn_tokens(self) -> int:
        return self.max_assistant_tokens


PRESETS = {
    "laptop": Preset(
        {
            **LAPTOP.values,
            "run_name": "alfworld-laptop",
            "games_per_batch": 8,
            "max_episode_steps": 12,
            "max_assistant_tokens": 40,
        },
        {**LAPTOP.unless, "max_episode_steps": "data_root"},
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    config = parse_config(
        AlfworldConfig, argv, prog="08-alfworld/train.py", description=__doc__.split("\n\n")[0], presets=PRESETS
    )

    from agentic_rl.rollout.trajectory import StopReason
    from agentic_rl.training import train
    from agentic_rl.training.recipes import GroupMean

    return train(
        config,
        lambda policy: GroupMean(invalid_action_penalty=config.invalid_action_penalty),
        turn_limit_reason=StopReason.MAX_STEPS,
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
