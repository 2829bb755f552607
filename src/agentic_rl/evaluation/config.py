"""What every evaluation can be told. A recipe adds the names it uses for turns and their limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentic_rl.config import GameOptions, ModelOptions, Preset, TrackingOptions, option
from agentic_rl.errors import ConfigError

HELD_OUT_SPLITS = ("valid_seen", "valid_unseen")


@dataclass(frozen=True, kw_only=True)
class EvalConfig(ModelOptions, GameOptions, TrackingOptions, ABC):
    """evaluation"""

    model_path: str | None = option(
        None, metavar="PATH", help="a `Saved sampler weights` path of a training run; without it the base model plays"
    )
    split: Literal["all", "valid_seen", "valid_unseen", "train"] = option(
        "all", help="which games; all means valid_seen and valid_unseen"
    )
    limit_per_split: int = option(
        0, minimum=0, metavar="N", help="play N games of each split, chosen by --seed; 0 means all"
    )
    games_per_batch: int = option(8, minimum=1, help="games played at once; none waits for another to take its turn")
    max_trajectory_tokens: int = option(12_000, minimum=64, help="token limit of a game's whole dialogue")
    temperature: float = option(0.01, minimum=0, help="sampling temperature; 0 means greedy")
    top_p: float = option(1.0, above=0, maximum=1, help="nucleus sampling; 1 means none")
    sample_retries: int = option(
        2, minimum=0, metavar="N", help="tries after a failed sample before its game is given up"
    )
    output: Path = option(
        Path("eval_results/eval.jsonl"),
        metavar="FILE",
        help="the results, JSON Lines; finished games are kept in FILE.partial until the last has ended, and the same "
        "command goes on with them if it was interrupted",
    )
    overwrite_output: bool = option(False, help="replace FILE if it exists")
    dry_run: bool = option(False, help="print the resolved config and the work it implies, and stop")

    @property
    @abstractmethod
    def turn_limit(self) -> int:
        """Turns an episode."""

    @property
    @abstractmethod
    def turn_tokens(self) -> int:
        """Tokens an assistant turn."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that `--split` stands for: `all` is one, where `--data-root` names that one."""
        if self.split != "all":
            return (self.split,)
        return (self.data_root.name,) if self.data_root.name in HELD_OUT_SPLITS else HELD_OUT_SPLITS

    def validate(self) -> None:
        if self.model_path is not None and "/training_state/" in self.model_path:
            raise ConfigError(
                f"--model-path {self.model_path} is a training state",
                hint="Evaluate the `Saved sampler weights` path that was printed beside it",
            )
        if self.turn_tokens >= self.max_trajectory_tokens:
            raise ConfigError(
                f"one turn may take {self.turn_tokens} tokens and a whole game {self.max_trajectory_tokens}",
                hint="Raise --max-trajectory-tokens",
            )


LAPTOP = Preset(
    {
        "backend": "local",
        "base_model": "builtin",
        "games": "household:1",
        "swanlab_mode": "disabled",
        "limit_per_split": 50,
        "games_per_batch": 32,
        "max_trajectory_tokens": 6_144,
        "temperature": 1.0,
    },
    unless={"games": "data_root", "max_trajectory_tokens": "data_root"},
)
"""The builtin model on generated games, played as the laptop's training plays its held-out ones."""
