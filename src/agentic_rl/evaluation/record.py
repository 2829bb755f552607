"""From a trajectory as it was played to a record as it is kept."""

from __future__ import annotations

from collections.abc import Iterator

from agentic_rl.dialogue.tool import TOOL_NAME, parse_tool_call
from agentic_rl.results.records import Message, StepRecord, TrajectoryRecord
from agentic_rl.rollout.trajectory import Trajectory, Turn


def trajectory_record(trajectory: Trajectory, *, reward: float, expert_steps: int | None = None) -> TrajectoryRecord:
    """The record of one finished game."""
    return TrajectoryRecord(
        evaluation_split=trajectory.game.split,
        game_id=trajectory.game.game_id,
        game_file=trajectory.game.location,
        split=trajectory.game.split,
        task_type=trajectory.game.task_type,
        group_id=trajectory.group_id,
        group_index=trajectory.group_index,
        task=trajectory.task,
        initial_observation=trajectory.initial_observation,
        messages=tuple(_messages(trajectory)),
        won=trajectory.won,
        truncated=trajectory.truncated,
        stop_reason=trajectory.stop_reason.value,
        invalid_action_count=trajectory.invalid_action_count,
        reward=float(reward),
        steps=tuple(map(_step, trajectory.turns)),
        expert_steps=expert_steps,
    )


def _step(turn: Turn) -> StepRecord:
    return StepRecord(
        step=turn.step,
        observation=turn.observation,
        admissible_actions=turn.admissible_actions,
        assistant_text=turn.assistant_text,
        call_id=turn.call_id,
        action=turn.action,
        valid_format=turn.valid_format,
        admissible=turn.admissible,
        valid_action=turn.valid_action,
        tool_response=turn.tool_response,
        next_observation=turn.next_observation,
        environment_score=float(turn.environment_score),
        done=turn.done,
        won=turn.won,
        prompt_tokens=turn.start,
        completion_tokens=turn.end - turn.start,
        mean_old_logprob=float(turn.logprobs.mean()) if len(turn.logprobs) else None,
    )


def _messages(trajectory: Trajectory) -> Iterator[Message]:
    """The dialogue in the form that chat models and their viewers read."""
    yield {"role": "system", "content": trajectory.system}
    yield {"role": "user", "content": trajectory.user}
    for turn in trajectory.turns:
        call = parse_tool_call(turn.assistant_text)
        if call.valid:
            function = {"name": TOOL_NAME, "arguments": {"action": call.action}}
            calls = [{"id": turn.call_id, "type": "function", "function": function}]
            yield {"role": "assistant", "content": call.reasoning, "tool_calls": calls}
        else:
            yield {"role": "assistant", "content": turn.assistant_text}
        yield {"role": "tool", "tool_call_id": turn.call_id, "name": TOOL_NAME, "content": turn.tool_response}
