"""Two players of the same games: who is better, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentic_rl.errors import ResultsError
from agentic_rl.results.files import Results
from agentic_rl.results.records import TrajectoryRecord
from agentic_rl.results.statistics import Interval, mcnemar_exact, paired_bootstrap

CHECKPOINT_SETTINGS = frozenset({"model_path", "weights"})
"""Settings that name what is compared."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference `after` − `before` in success rate over the same games.

    Attributes
    ----------
    gained, lost
        Games that only `after` won; that only `before` won.
    interval
        The paired bootstrap's 95 % interval for `difference`.
    p_value
        McNemar's exact test.
    """

    games: int
    before: float
    after: float
    gained: int
    lost: int
    interval: Interval
    p_value: float

    @property
    def difference(self) -> float:
        return self.after - self.before


def compare(before: Sequence[TrajectoryRecord], after: Sequence[TrajectoryRecord], *, seed: int = 0) -> Comparison:
    """Compare two sets of records of the same games, in any order."""
    first = {record.game_id: record.won for record in before}
    second = {record.game_id: record.won for record in after}
    if first.keys() != second.keys():
        raise ResultsError(f"the two evaluations played different games ({_unshared(set(first), set(second))})")
    ids = sorted(first)
    wins_before, wins_after = [first[game] for game in ids], [second[game] for game in ids]
    pairs = list(zip(wins_before, wins_after, strict=True))
    return Comparison(
        games=len(ids),
        before=sum(wins_before) / len(ids),
        after=sum(wins_after) / len(ids),
        gained=pairs.count((False, True)),
        lost=pairs.count((True, False)),
        interval=paired_bootstrap(wins_before, wins_after, seed=seed),
        p_value=mcnemar_exact(wins_before, wins_after),
    )


def require_comparable(results: Sequence[Results]) -> None:
    """Raise unless all files hold the same games, played from the same base model, all with or all without skills."""
    first, *others = results
    for other in others:
        pair = f"{first.path} and {other.path}"
        mine, theirs = ({record.game_id for record in one.records} for one in (first, other))
        if mine != theirs:
            raise ResultsError(
                f"{pair} hold different games ({_unshared(mine, theirs)})",
                hint="Evaluate all checkpoints with the same --split, --limit-per-split and --seed.",
            )
        if first.summary.base_model != other.summary.base_model:
            raise ResultsError(
                f"{pair} are of different base models ({first.summary.base_model} and {other.summary.base_model})"
            )
        if first.summary.skill_free != other.summary.skill_free:
            with_skills = other.path if first.summary.skill_free else first.path
            raise ResultsError(f"{pair} cannot be compared: only {with_skills} was played with skills")


def differing_settings(results: Sequence[Results]) -> dict[str, tuple[object, ...]]:
    """The settings, other than the checkpoint, in which files that may be compared were played differently.

    Name → one value a file. Files that do not say (published ones do not) differ in nothing that could be known.
    """
    known = [one.summary.settings for one in results if one.summary.settings is not None]
    if len(known) < len(results):
        return {}
    names = sorted({name for settings in known for name in settings} - CHECKPOINT_SETTINGS)
    values = {name: tuple(settings.get(name) for settings in known) for name in names}
    return {name: found for name, found in values.items() if any(value != found[0] for value in found)}


def _unshared(first: set[str], second: set[str]) -> str:
    example = min(first ^ second)
    return f"{len(first)} and {len(second)}, {len(first & second)} of them shared; {example} is in one only"
