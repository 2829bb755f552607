"""What a rollout can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agentic_rl.errors import ConfigError
from agentic_rl.rollout.trajectory import StopReason


class PlayOptions(Protocol):
    """The flags that training and evaluation share, by whatever names a recipe gives its limits."""

    @property
    def turn_limit(self) -> int: ...
    @property
    def turn_tokens(self) -> int: ...
    @property
    def max_trajectory_tokens(self) -> int: ...
    @property
    def temperature(self) -> float: ...
    @property
    def top_p(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def include_admissible_actions(self) -> bool: ...
    @property
    def engine(self) -> str: ...
    @property
    def sample_retries(self) -> int: ...
    @property
    def sample_timeout(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig:
    """How games are played.

    Attributes
    ----------
    group_size
        Trajectories a game.
    max_turns
        Turns an episode; reaching it ends the trajectory with `turn_limit_reason`.
    max_trajectory_tokens, max_turn_tokens
        The most tokens of a whole trajectory, and of one assistant turn.
    temperature, top_p
        How turns are sampled.
    seed
        The run's seed; every request derives its own (`derive_seed`).
    include_admissible_actions
        Whether the agent is shown the available actions.
    engine
        `simulator` or `textworld`.
    max_live
        Trajectories played at once; None means all of them.
    sample_retries
        Tries after a failed sample before its trajectory is dropped.
    sample_timeout_s
        How long one try of one request may take; None means for ever.
    """

    group_size: int
    max_turns: int
    max_trajectory_tokens: int
    max_turn_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 42
    include_admissible_actions: bool = True
    engine: str = "simulator"
    turn_limit_reason: StopReason = StopReason.MAX_TURNS
    max_live: int | None = None
    sample_retries: int = 2
    sample_timeout_s: float | None = None

    @classmethod
    def of(
        cls, options: PlayOptions, *, group_size: int, max_live: int | None, turn_limit_reason: StopReason
    ) -> RolloutConfig:
        """How games are played according to the command line."""
        return cls(
            group_size=group_size,
            max_turns=options.turn_limit,
            max_trajectory_tokens=options.max_trajectory_tokens,
            max_turn_tokens=options.turn_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
            seed=options.seed,
            include_admissible_actions=options.include_admissible_actions,
            engine=options.engine,
            turn_limit_reason=turn_limit_reason,
            max_live=max_live,
            sample_retries=options.sample_retries,
            sample_timeout_s=options.sample_timeout,
        )

    def __post_init__(self) -> None:
        for name in ("group_size", "max_turns", "max_trajectory_tokens", "max_turn_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.max_live is not None and self.max_live < 1:
            raise ConfigError(f"max_live must be at least 1, not {self.max_live}")
        if self.sample_retries < 0:
            raise ConfigError(f"sample_retries must be at least 0, not {self.sample_retries}")
        if self.sample_timeout_s is not None and self.sample_timeout_s <= 0:
            raise ConfigError(f"sample_timeout_s must be above 0, not {self.sample_timeout_s}")
        if not self.temperature >= 0:
            raise ConfigError(f"temperature must be at least 0, not {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be above 0 and at most 1, not {self.top_p}")
