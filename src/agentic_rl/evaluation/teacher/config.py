"""What `agentic-rl teacher` can be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentic_rl.config import ModelOptions, option
from agentic_rl.errors import ConfigError

HOUSEHOLDS, FILES = "household:2", "alfworld"


@dataclass(frozen=True, kw_only=True)
class TeacherConfig(ModelOptions):
    """what is played and scored"""

    backend: Literal["pytrio", "local"] = option(
        "local", help="where the model runs: this machine, or the PyTRIO service (or a server that speaks its protocol)"
    )
    base_model: str = option("builtin", help="the model: `builtin`, a folder, a hub id, or a name the backend knows")
    model_path: str | None = option(
        None, metavar="PATH", help="a `Saved sampler weights` path of a training run; without it the base model plays"
    )
    run_dir: Path = option(Path("runs"), metavar="DIR", help="the folder of run directories that local:// paths name")
    games: str | None = option(
        None,
        metavar="SOURCE",
        help=f"household[:1-5], generated games, or alfworld, the files under --data-root (default: {HOUSEHOLDS}; "
        f"with --data-root {FILES})",
    )
    data_root: Path | None = option(
        None, metavar="DIR", help="the folder above json_2.1.1, json_2.1.1 itself, or one split"
    )
    split: str = option("valid_unseen", metavar="SPLIT", help="the split whose games are played")
    count: int = option(32, minimum=1, metavar="N", help="games, chosen by --seed")
    group_size: int = option(4, minimum=1, help="trajectories a game")
    seed: int = option(42, minimum=0, help="every random draw comes from it")
    include_admissible_actions: bool = option(True, help="show the agent the list of available actions")
    max_turns: int = option(20, minimum=1, help="turns an episode")
    max_action_tokens: int = option(40, minimum=1, help="tokens an assistant turn")
    max_trajectory_tokens: int = option(
        6_144, minimum=64, help="token limit of a trajectory, without the teacher's longer prompt"
    )
    temperature: float = option(1.0, minimum=0, help="sampling temperature; training uses 1")
    top_p: float = option(1.0, above=0, maximum=1, help="nucleus sampling; 1 means none")
    live_trajectories: int = option(64, minimum=1, metavar="N", help="trajectories played at once")
    sample_retries: int = option(2, minimum=0, metavar="N", help="tries after a failed request")
    skills_dir: Path | None = option(None, metavar="DIR", help="the teacher's texts (default: the project's own)")
    teacher_concurrency: int = option(16, minimum=1, help="requests of a teacher at once")
    evidence_baseline: Literal["rescored", "sampled"] = option(
        "rescored",
        help="the student's log-probs: scored again like the teacher's, or as sampled, which costs no second request "
        "but leaves the difference between sampling and scoring in the evidence",
    )
    json: Path | None = option(
        None, metavar="FILE", help="write everything that is shown, and every turn, as JSON as well"
    )

    @property
    def turn_limit(self) -> int:
        return self.max_turns

    @property
    def turn_tokens(self) -> int:
        return self.max_action_tokens

    @property
    def engine(self) -> str:
        """The expert reads the simulator's states, so it is what is played."""
        return "simulator"

    @property
    def source(self) -> str:
        """Where the games come from: who names a dataset and no source means its files."""
        return self.games or (HOUSEHOLDS if self.data_root is None else FILES)

    def validate(self) -> None:
        if self.source == FILES and self.data_root is None:
            raise ConfigError(
                "--games alfworld needs the files", hint="Name their folder with --data-root, or play --games household"
            )
        if self.source != FILES and self.data_root is not None:
            raise ConfigError(f"--data-root has no part in --games {self.source}", hint="Leave out one of the two")
        if self.model_path is not None and "/training_state/" in self.model_path:
            raise ConfigError(
                f"--model-path {self.model_path} is a training state",
                hint="Give the `Saved sampler weights` path that was printed beside it",
            )
        if self.max_action_tokens >= self.max_trajectory_tokens:
            raise ConfigError(
                f"one turn may take {self.max_action_tokens} tokens and a whole trajectory "
                f"{self.max_trajectory_tokens}",
                hint="Raise --max-trajectory-tokens",
            )
        if self.json is not None and not self.json.parent.is_dir():
            raise ConfigError(f"--json {self.json}: there is no folder {self.json.parent}")
