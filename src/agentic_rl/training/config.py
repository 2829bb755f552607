"""What every training run can be told. A recipe adds the names it uses for games, turns and their limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from agentic_rl.config import GameOptions, ModelOptions, Preset, TrackingOptions, option
from agentic_rl.errors import ConfigError

TEXTWORLD_LIVE = 16


@dataclass(frozen=True, kw_only=True)
class TrainConfig(ModelOptions, GameOptions, TrackingOptions, ABC):
    """training"""

    max_steps: int = option(200, minimum=1, help="updates to run, counted from the start of the run")
    group_size: int = option(8, minimum=2, help="trajectories a game; their mean reward is the baseline")
    train_split: str = option("train", metavar="SPLIT", help="the split whose games are played")
    max_train_games: int = option(0, minimum=0, help="use only the first N games of the shuffled order; 0 means all")
    max_trajectory_tokens: int = option(12_000, minimum=64, help="token limit of a trajectory")
    temperature: float = option(1.0, minimum=0, help="sampling temperature; credit assumes 1")
    top_p: float = option(1.0, above=0, maximum=1, help="nucleus sampling; credit assumes 1")
    max_live_trajectories: int = option(
        0, minimum=0, help="trajectories played at once; 0 means all of an update, or 16 on TextWorld (100 MB each)"
    )
    sample_retries: int = option(2, minimum=0, help="tries after a failed sample before its trajectory is dropped")
    learning_rate: float = option(1e-6, above=0, help="Adam's learning rate")
    beta1: float = option(0.9, minimum=0, maximum=1, help="Adam's beta1")
    beta2: float = option(0.95, minimum=0, maximum=1, help="Adam's beta2")
    weight_decay: float = option(0.0, minimum=0, help="decoupled weight decay")
    grad_clip_norm: float = option(1.0, minimum=0, help="bound on the gradient's norm; 0 means none")
    ppo_clip_low: float = option(0.8, minimum=0, help="lower bound on the probability ratio itself")
    ppo_clip_high: float = option(1.2, minimum=0, help="upper bound on the probability ratio itself")
    loss_reduction: Literal["token_mean", "sequence_mean", "sum"] = option(
        "token_mean", help="what the loss is divided by: sampled tokens of the batch, its trajectories, or nothing"
    )
    probe: bool = option(True, help="ask the service once, with two tiny forwards, how it reduces the loss")
    service_reduction: str = option(
        "auto", metavar="KIND", help="how the service itself reduces the loss; auto asks it, see --probe"
    )
    lora_rank: int = option(32, minimum=1, help="rank of the LoRA")
    train_unembed: bool = option(False, help="give the output layer a LoRA too")
    save_every: int = option(25, minimum=0, help="save every N updates and at the end; 0 means only at the end")
    resume: str | None = option(None, metavar="STATE", help="a `Saved state` path to go on from, optimizer included")
    eval_every: int = option(
        0, minimum=0, help="evaluate on held-out games before, every N updates and at the end; 0 means never"
    )
    eval_games: int = option(100, minimum=1, help="held-out games of such an evaluation")
    eval_split: str = option("valid_unseen", metavar="SPLIT", help="the split those games come from")
    eval_temperature: float = option(0.01, minimum=0, help="sampling temperature of such an evaluation")
    dry_run: bool = option(False, help="print the resolved config and the work it implies, and stop")

    @property
    @abstractmethod
    def games_per_update(self) -> int:
        """Groups an update."""

    @property
    @abstractmethod
    def turn_limit(self) -> int:
        """Turns an episode."""

    @property
    @abstractmethod
    def turn_tokens(self) -> int:
        """Tokens an assistant turn."""

    @property
    def live_trajectories(self) -> int | None:
        """Trajectories played at once; None means all. TextWorld takes a process for each."""
        return self.max_live_trajectories or (TEXTWORLD_LIVE if self.engine == "textworld" else None)

    @property
    def sequence_limit(self) -> int:
        """The longest sequence the policy will be asked to read."""
        return self.max_trajectory_tokens

    def validate(self) -> None:
        if not self.ppo_clip_low < 1 < self.ppo_clip_high:
            raise ConfigError(
                f"the clip range is {self.ppo_clip_low:g} to {self.ppo_clip_high:g}",
                hint="--ppo-clip-low must be below 1 and --ppo-clip-high above it: they bound the ratio itself",
            )
        if not self.run_name or "/" in self.run_name or self.run_name.startswith("."):
            raise ConfigError(f"--run-name {self.run_name!r} cannot name a folder")
        if self.turn_tokens >= self.max_trajectory_tokens:
            raise ConfigError(
                f"one turn may take {self.turn_tokens} tokens and a whole trajectory {self.max_trajectory_tokens}",
                hint="Raise --max-trajectory-tokens",
            )


LAPTOP = Preset(
    {
        "backend": "local",
        "base_model": "builtin",
        "games": "household:1",
        "swanlab_mode": "disabled",
        "max_steps": 16,
        "group_size": 8,
        "max_trajectory_tokens": 6_144,
        "learning_rate": 1e-3,
        "lora_rank": 32,
        "save_every": 8,
        "eval_every": 8,
        "eval_games": 200,
        "eval_temperature": 1.0,
    },
    unless={"games": "data_root", "eval_every": "data_root", "max_trajectory_tokens": "data_root"},
)
"""Learning before your eyes: the builtin model on generated games, minutes on two cores."""
