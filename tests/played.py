"""Small evaluation files for the tests of everything that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentic_rl.results import StepRecord, Summary, TrajectoryRecord, summarize, write_records


def step(number: int = 1, *, valid_format: bool = True, admissible: bool = True, won: bool = False) -> StepRecord:
    """One turn."""
    return StepRecord(
        step=number,
        observation="You are in the middle of a room.",
        admissible_actions=("go to desk 1", "look"),
        assistant_text='<tool_call>{"name": "alfworld_step", "arguments": {"action": "look"}}</tool_call>',
        call_id=f"call_{number}",
        action="look" if valid_format else None,
        valid_format=valid_format,
        admissible=admissible,
        valid_action=valid_format and admissible,
        tool_response="Step: 1",
        next_observation="You see nothing special.",
        environment_score=float(won),
        done=won,
        won=won,
        prompt_tokens=100,
        completion_tokens=12,
        mean_old_logprob=-0.25,
    )


def game(
    number: int,
    *,
    won: bool,
    split: str = "valid_seen",
    steps: Sequence[StepRecord] | None = None,
    task_type: str = "pick_and_place_simple",
    reward: float | None = None,
    expert_steps: int | None = None,
) -> TrajectoryRecord:
    """One finished game; by default of one valid turn."""
    turns = tuple(steps) if steps is not None else (step(won=won),)
    return TrajectoryRecord(
        evaluation_split=split,
        game_id=f"{split}:{task_type}-Mug-None-Desk-1/trial_{number:03d}",
        game_file=f"games/{number}",
        split=split,
        task_type=task_type,
        group_id=f"group-{number}",
        group_index=0,
        task="put a mug in desk.",
        initial_observation="You are in the middle of a room.",
        messages=({"role": "system", "content": "…"},),
        won=won,
        truncated=not won,
        stop_reason="won" if won else "max_steps",
        invalid_action_count=sum(not turn.valid_action for turn in turns),
        reward=float(won) if reward is None else reward,
        steps=turns,
        expert_steps=expert_steps,
    )


def summary(records: Sequence[TrajectoryRecord], *, base_model: str = "builtin", skill_free: bool = True) -> Summary:
    """The summary that belongs to these records."""
    return Summary(base_model=base_model, model_path=None, skill_free=skill_free, metrics=summarize(records))


def evaluation(path: Path, records: Sequence[TrajectoryRecord], *, base_model: str = "builtin") -> Path:
    """A whole evaluation file."""
    write_records(path, records, summary(records, base_model=base_model))
    return path
