"""One run's success on held-out games over its updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_rl.report.figures import INK, SUCCESS, in_percent, new_figure, plain, save
from agentic_rl.results.statistics import Interval, wilson


@dataclass(frozen=True, slots=True)
class LearningPoint:
    """Games won of games played, by the weights after `update` (0: before training)."""

    update: int
    won: int
    games: int

    @property
    def rate(self) -> float:
        return self.won / self.games

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval."""
        return wilson(self.won, self.games)


def learning_curve(points: Sequence[LearningPoint], path: Path, *, title: str = "", dpi: int = 150) -> None:
    """Draw success over updates with its 95 % interval, from zero."""
    from matplotlib.ticker import MaxNLocator

    ordered = sorted(points, key=lambda point: point.update)
    updates, rates = [point.update for point in ordered], [point.rate for point in ordered]
    intervals = [point.interval for point in ordered]
    figure = new_figure(6.4, 4.0)
    axes = figure.add_subplot()
    axes.fill_between(
        updates, [i.low for i in intervals], [i.high for i in intervals], color=SUCCESS, alpha=0.18, linewidth=0
    )
    axes.plot(updates, rates, color=SUCCESS, marker="o", linewidth=1.8)
    for index in {0, len(ordered) - 1}:
        axes.annotate(f"{rates[index]:.0%}", (updates[index], rates[index]), (0, 8), textcoords="offset points",
                      ha="center", fontsize=9, color=SUCCESS)  # fmt: skip
    axes.set_xlabel("updates", color=INK)
    axes.set_ylabel(f"held-out games won (of {ordered[0].games})", color=INK)
    axes.set_title(title or "Success on held-out games, with 95 % intervals", loc="left", fontsize=11, color=INK)
    plain(axes)
    in_percent(axes, top=1.1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    save(figure, path, dpi=dpi)
