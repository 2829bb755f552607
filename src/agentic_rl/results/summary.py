"""The numbers of an evaluation, from its records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentic_rl.results.records import TrajectoryRecord
from agentic_rl.results.statistics import wilson


def summarize(records: Iterable[TrajectoryRecord]) -> dict[str, float]:
    """Every metric of every split, under `eval/<split>/`."""
    splits: dict[str, list[TrajectoryRecord]] = {}
    for record in records:
        splits.setdefault(record.evaluation_split, []).append(record)
    return {
        f"eval/{split}/{name}": value
        for split in sorted(splits)
        for name, value in split_metrics(splits[split]).items()
    }


def split_metrics(records: Sequence[TrajectoryRecord]) -> dict[str, float]:
    """The metrics of one set of games (at least one).

    Means and rates are over games, but for `valid_tool_call_rate` and `admissible_action_rate`, which are over all
    turns of all games. `steps_over_expert` is the mean over games won of steps taken over the shortest solution's,
    and is there only if some game was won whose shortest solution is known.
    """
    games = len(records)
    turns = [step for record in records for step in record.steps]
    metrics: dict[str, float] = {
        "reward_mean": sum(record.reward for record in records) / games,
        "success_rate": success_rate(records),
        "steps_mean": len(turns) / games,
        "truncated_rate": sum(record.truncated for record in records) / games,
        "valid_tool_call_rate": sum(turn.valid_format for turn in turns) / max(len(turns), 1),
        "admissible_action_rate": sum(turn.admissible for turn in turns) / max(len(turns), 1),
        "invalid_actions_mean": sum(record.invalid_action_count for record in records) / games,
        "games": games,
    }
    for task_type in sorted({record.task_type for record in records}):
        metrics[f"success_rate/{task_type}"] = success_rate([r for r in records if r.task_type == task_type])
    if ratios := [len(r.steps) / r.expert_steps for r in records if r.won and r.expert_steps]:
        metrics["steps_over_expert"] = sum(ratios) / len(ratios)
    return metrics


def success_rate(records: Sequence[TrajectoryRecord]) -> float:
    """The share of games won."""
    return sum(record.won for record in records) / len(records)


def rate_text(won: int, games: int) -> str:
    """A success rate with its 95 % interval, as it stands in tables."""
    low, high = wilson(won, games)
    return f"{won / games:.2%} [{low:.1%}, {high:.1%}]"


def summary_table(records: Sequence[TrajectoryRecord]) -> str:
    """The few numbers of an evaluation that one looks at first: a line for each split, and one for all."""
    splits = sorted({record.evaluation_split for record in records})
    rows = [["split", "games", "won", "invalid actions", "steps", "steps/expert"]]
    for name in [*splits, "overall"] if len(splits) > 1 else splits:
        played = [record for record in records if name in (record.evaluation_split, "overall")]
        metrics = split_metrics(played)
        over_expert = metrics.get("steps_over_expert")
        rows.append(
            [
                name,
                str(len(played)),
                rate_text(sum(record.won for record in played), len(played)),
                f"{metrics['invalid_actions_mean']:.2f}",
                f"{metrics['steps_mean']:.1f}",
                "" if over_expert is None else f"{over_expert:.2f}",
            ]
        )
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines with straight columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
