"""Evidence against labels: which turns get more of it, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from agentic_rl.evaluation.teacher.distance import DistanceMeter, Step
from agentic_rl.evaluation.teacher.score import Scored
from agentic_rl.games.interface import TASK_TYPES
from agentic_rl.results import Interval, rank_correlation, roc_auc, roc_auc_interval
from agentic_rl.rollout.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class ScoredTurn:
    """One turn: what was done, what it was good for, and the evidence of it, by what the teacher was told.

    `searches` is True where it went to a place, or opened one, for the first time in its trajectory.
    """

    game_id: str
    task_type: str
    branch: int
    step: int
    action: str | None
    valid: bool
    searches: bool
    distance: Step
    tokens: int
    with_skills: float
    without: float


@dataclass(frozen=True, slots=True)
class Contrast:
    """The evidence of good turns against that of the others.

    Attributes
    ----------
    good, others
        How many turns there are of each.
    good_mean, others_mean
        Their mean evidence; None where there are none.
    auc
        How often a good turn has more evidence than another one; None where either kind is missing.
    interval
        The 95 % interval of `auc`, games resampled.
    """

    good: int
    others: int
    good_mean: float | None
    others_mean: float | None
    auc: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Worth:
    """What the teacher's word is worth where it was told one thing.

    Attributes
    ----------
    largest
        The largest absolute evidence of any turn.
    nearer
        Turns that shorten the expert's remaining distance, against the others: the worth of recipe 09's evidence.
    nearer_of_valid
        The same among valid turns alone: what the teacher knows beyond which actions are available.
    nearer_or_searching
        Turns that shorten the distance or search a new place, against the others: who does not know where things are
        has to look.
    valid
        Valid turns against invalid ones.
    correlation
        Spearman's, of evidence and of how far the distance fell; None if either is the same everywhere.
    by_task_type
        `nearer`, task type by task type.
    """

    largest: float
    nearer: Contrast
    nearer_of_valid: Contrast
    nearer_or_searching: Contrast
    valid: Contrast
    correlation: float | None
    by_task_type: dict[str, Contrast]


def turns_of(scored: Iterable[Scored]) -> list[ScoredTurn]:
    """Every turn with its evidence and its distances."""
    meters: dict[str, DistanceMeter] = {}
    turns = []
    for one in scored:
        trajectory = one.trajectory
        game = trajectory.game
        meter = meters.setdefault(game.game_id, DistanceMeter(game))
        searches = _searches(trajectory)
        rows = zip(trajectory.turns, searches, meter.steps(trajectory), one.with_skills, one.without, strict=True)
        turns += [
            ScoredTurn(
                game_id=game.game_id,
                task_type=game.task_type,
                branch=trajectory.group_index,
                step=turn.step,
                action=turn.action,
                valid=turn.valid_action,
                searches=new_place,
                distance=distance,
                tokens=turn.end - turn.start,
                with_skills=float(with_skills),
                without=float(without),
            )
            for turn, new_place, distance, with_skills, without in rows
        ]
    return turns


def worth(turns: Sequence[ScoredTurn], evidence: Callable[[ScoredTurn], float], *, seed: int) -> Worth:
    """Compare the evidence of turns; those whose distance is not known count only where it is not asked for."""
    known = [turn for turn in turns if turn.distance.known]

    def contrast(some: Sequence[ScoredTurn], good: Callable[[ScoredTurn], bool]) -> Contrast:
        scores = np.array([evidence(turn) for turn in some])
        is_good = np.array([good(turn) for turn in some], dtype=bool)
        both = bool(is_good.any()) and not is_good.all()
        return Contrast(
            good=int(is_good.sum()),
            others=int((~is_good).sum()),
            good_mean=float(scores[is_good].mean()) if is_good.any() else None,
            others_mean=float(scores[~is_good].mean()) if not is_good.all() else None,
            auc=roc_auc(scores[is_good], scores[~is_good]) if both else None,
            interval=roc_auc_interval(scores, is_good, [turn.game_id for turn in some], seed=seed) if both else None,
        )

    def nearer(turn: ScoredTurn) -> bool:
        return turn.distance.falls

    of_task = {task: [turn for turn in known if turn.task_type == task] for task in TASK_TYPES}
    return Worth(
        largest=max((abs(evidence(turn)) for turn in turns), default=0.0),
        nearer=contrast(known, nearer),
        nearer_of_valid=contrast([turn for turn in known if turn.valid], nearer),
        nearer_or_searching=contrast(known, lambda turn: turn.distance.falls or turn.searches),
        valid=contrast(turns, lambda turn: turn.valid),
        correlation=rank_correlation(
            [evidence(turn) for turn in known], [turn.distance.before - turn.distance.after for turn in known]
        ),
        by_task_type={task: contrast(some, nearer) for task, some in of_task.items() if some},
    )


def _searches(trajectory: Trajectory) -> list[bool]:
    """Which turns look into a place for the first time."""
    done: set[str | None] = set()
    searches = []
    for turn in trajectory.turns:
        new = turn.valid_action and turn.action not in done and (turn.action or "").startswith(("go to ", "open "))
        searches.append(new)
        if new:
            done.add(turn.action)
    return searches
