"""Recipe 08: a trajectory is worth what it earned above its group's mean, every turn of it the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from agentic_rl.credit import group_mean_advantages
from agentic_rl.policy.protocol import Sampler
from agentic_rl.rollout.trajectory import Group, Trajectory
from agentic_rl.training.recipe import Credit

if TYPE_CHECKING:
    from agentic_rl.dialogue.chat_format import ChatFormat


@dataclass(frozen=True, slots=True)
class GroupMean:
    """Reward 1[won] − penalty × invalid actions; advantage = reward − group mean (method.md, section 3)."""

    invalid_action_penalty: float = 0.1
    name: str = field(default="08-alfworld", init=False)
    rollout_prefix: str = field(default="rollout", init=False)
    checkpoint_word: str = field(default="update", init=False)
    sampled_name: str = field(default="loss_tokens", init=False)

    def reward(self, trajectory: Trajectory) -> float:
        return float(trajectory.won) - self.invalid_action_penalty * trajectory.invalid_action_count

    def credit(self, sampler: Sampler, chat: ChatFormat) -> GroupMeanRule:
        return GroupMeanRule(self)


@dataclass(frozen=True, slots=True)
class GroupMeanRule:
    """Needs nothing but the rewards."""

    recipe: GroupMean
    observe: None = None

    def assign(self, groups: Sequence[Group]) -> Credit:
        advantages = {}
        sequence_advantages = []
        for group in groups:
            rewards = [self.recipe.reward(trajectory) for trajectory in group.trajectories]
            for trajectory, advantage in zip(group.trajectories, group_mean_advantages(rewards), strict=True):
                key = (trajectory.group_id, trajectory.group_index)
                advantages[key] = np.full(len(trajectory.turns), advantage)
                sequence_advantages.append(advantage)
        return Credit(advantages, {"advantage/std": float(np.std(sequence_advantages))} if sequence_advantages else {})
