"""What tells one recipe from another: a reward and a rule of credit. The loop never asks which it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from agentic_rl.policy.protocol import Sampler
from agentic_rl.rollout.trajectory import Group, Trajectory

if TYPE_CHECKING:
    from agentic_rl.dialogue.chat_format import ChatFormat

type TurnAdvantages = Mapping[tuple[str, int], NDArray[np.float64]]
"""(group id, group index) → one advantage a turn."""


@dataclass(frozen=True, slots=True)
class Credit:
    """What the optimizer is told about every trajectory, and what the log is told about all of them."""

    turn_advantages: TurnAdvantages
    metrics: Mapping[str, float]


class CreditRule(Protocol):
    """The credit of one update. Built anew for each, on the snapshot that plays it.

    `observe`, if there is one, is called as each trajectory ends, while others still play.
    """

    @property
    def observe(self) -> Callable[[Trajectory], Awaitable[None]] | None: ...

    def assign(self, groups: Sequence[Group]) -> Credit: ...


class Recipe(Protocol):
    """One published way to train.

    Attributes
    ----------
    name
        As in the table of recipes.
    rollout_prefix
        First part of the rollout's metric names (`rollout` or `trajectory`).
    checkpoint_word
        `update` or `step`: how a checkpoint's name counts.
    sampled_name
        `loss_tokens` or `action_tokens`: what the metrics call the sampled tokens of the batch.
    """

    @property
    def name(self) -> str: ...

    @property
    def rollout_prefix(self) -> str: ...

    @property
    def checkpoint_word(self) -> str: ...

    @property
    def sampled_name(self) -> str: ...

    def reward(self, trajectory: Trajectory) -> float: ...

    def credit(self, sampler: Sampler, chat: ChatFormat) -> CreditRule: ...
