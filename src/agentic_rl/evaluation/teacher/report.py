"""What `agentic-rl teacher` prints, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from agentic_rl.config import as_json
from agentic_rl.evaluation.teacher.config import TeacherConfig
from agentic_rl.evaluation.teacher.distance import LOST
from agentic_rl.evaluation.teacher.score import Scored
from agentic_rl.evaluation.teacher.worth import Contrast, ScoredTurn, Worth
from agentic_rl.results import panel_hash

_TITLE, _COUNT, _MEAN = 34, 7, 10


def as_text(
    config: TeacherConfig,
    weights: str,
    scored: Sequence[Scored],
    turns: Sequence[ScoredTurn],
    told: Worth,
    untold: Worth,
) -> str:
    """Counts, one table for each thing that the teacher was told, one by task type, and the upshot in one line."""
    return "\n".join(
        [
            *_head(config, weights, scored, turns),
            "",
            *_table("with the skills", _by_label(told)),
            *_correlation(told),
            "",
            *_table("with the skills, nearer the end", told.by_task_type.items()),
            "",
            *_table("with no skills", _by_label(untold)),
            "",
            f"does a turn that brings the end nearer get more evidence? AUC {_area(told.nearer).strip()} with the "
            f"skills; {_area(untold.nearer).strip()} with none, where the largest evidence is {untold.largest:g}",
        ]
    )


def as_document(
    config: TeacherConfig,
    weights: str,
    scored: Sequence[Scored],
    turns: Sequence[ScoredTurn],
    told: Worth,
    untold: Worth,
) -> str:
    """Everything that `as_text` says, and every turn."""
    document = {
        "config": as_json(config),
        "weights": weights,
        "panel": panel_hash(_games(scored)),
        "trajectories": len(scored),
        "won": sum(one.trajectory.won for one in scored),
        "turns_without_distance": sum(not turn.distance.known for turn in turns),
        "with_skills": asdict(told),
        "no_skills": asdict(untold),
        "turns": [_turn(turn) for turn in turns],
    }
    return json.dumps(document, indent=1) + "\n"


def _turn(turn: ScoredTurn) -> dict[str, object]:
    """A turn on one level; the distance of a game that is lost for good is null."""
    row = asdict(turn)
    distances = {f"distance_{when}": None if steps >= LOST else steps for when, steps in row.pop("distance").items()}
    return row | distances


def _head(config: TeacherConfig, weights: str, scored: Sequence[Scored], turns: Sequence[ScoredTurn]) -> Iterator[str]:
    games, won = _games(scored), sum(one.trajectory.won for one in scored)
    yield (
        f"{config.model_path or config.base_model} ({weights}), {config.source} {config.split}, "
        f"{len(games)} game{'s' * (len(games) > 1)} (panel {panel_hash(games)})"
    )
    missing = config.count * config.group_size - len(scored)
    yield f"{len(scored)} trajectories, {won} won ({won / len(scored):.1%}), {len(turns)} turns" + (
        f"; {missing} more could not be played and scored" if missing else ""
    )
    lost = sum(not turn.distance.known for turn in turns)
    yield f"turns left out of `nearer the end` because the game could no longer be won: {lost}"


def _games(scored: Sequence[Scored]) -> set[str]:
    return {one.trajectory.game.game_id for one in scored}


def _by_label(worth: Worth) -> list[tuple[str, Contrast]]:
    return [
        ("nearer the end", worth.nearer),
        ("nearer the end, valid turns alone", worth.nearer_of_valid),
        ("nearer, or searching a new place", worth.nearer_or_searching),
        ("a valid action", worth.valid),
    ]


def _table(title: str, rows: Iterable[tuple[str, Contrast]]) -> Iterator[str]:
    yield (
        f"{title:<{_TITLE}}{'turns':>{_COUNT}}{'evidence':>{_MEAN}}{'others':>{_COUNT + 2}}{'evidence':>{_MEAN}}"
        "     AUC 95 % interval"
    )
    for name, contrast in rows:
        yield (
            f"  {name:<{_TITLE - 2}}{contrast.good:>{_COUNT}}{_mean(contrast.good_mean):>{_MEAN}}"
            f"{contrast.others:>{_COUNT + 2}}{_mean(contrast.others_mean):>{_MEAN}}   {_area(contrast)}"
        )


def _correlation(worth: Worth) -> Iterator[str]:
    if worth.correlation is not None:
        yield f"  rank correlation of evidence and the fall of the distance: {worth.correlation:+.3f}"


def _mean(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}" if value else "0"


def _area(contrast: Contrast) -> str:
    if contrast.auc is None or contrast.interval is None:
        return "    –"
    return f"{contrast.auc:.3f} [{contrast.interval.low:.3f}, {contrast.interval.high:.3f}]"
