"""What a user reads to see what was played and what each turn was found worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agentic_rl.rollout.trajectory import Group
from agentic_rl.training.recipe import Credit, Recipe


def trajectory_records(groups: Sequence[Group], recipe: Recipe, credit: Credit) -> Iterator[dict[str, Any]]:
    """One JSON object a trajectory: its outcome, and every turn with its advantage."""
    for group in groups:
        for trajectory in group.trajectories:
            advantages = credit.turn_advantages[trajectory.group_id, trajectory.group_index]
            yield {
                "game_id": trajectory.game.game_id,
                "task_type": trajectory.game.task_type,
                "group_id": trajectory.group_id,
                "group_index": trajectory.group_index,
                "task": trajectory.task,
                "initial_observation": trajectory.initial_observation,
                "reward": recipe.reward(trajectory),
                "won": trajectory.won,
                "stop_reason": trajectory.stop_reason.value,
                "invalid_action_count": trajectory.invalid_action_count,
                "tokens": len(trajectory.tokens),
                "turns": [
                    {
                        "step": turn.step,
                        "assistant_text": turn.assistant_text,
                        "action": turn.action,
                        "valid_action": turn.valid_action,
                        "observation": turn.next_observation,
                        "sampled_tokens": turn.end - turn.start,
                        "mean_logprob": float(turn.logprobs.mean()) if len(turn.logprobs) else None,
                        "advantage": float(advantage),
                    }
                    for turn, advantage in zip(trajectory.turns, advantages, strict=True)
                ],
            }
