"""Checkpoints of one model on the same games: a table to read and a figure to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentic_rl.errors import ResultsError
from agentic_rl.report.figures import (
    INK,
    INVALID,
    SUCCESS,
    bars_of,
    in_percent,
    new_figure,
    plain,
    require_writable,
    save,
)
from agentic_rl.results import (
    Interval,
    Results,
    compare,
    differing_settings,
    read_results,
    require_comparable,
    wilson,
)
from agentic_rl.results.records import TrajectoryRecord
from agentic_rl.results.summary import aligned, rate_text, split_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6}
SPLIT_NAMES = {"valid_seen": "seen", "valid_unseen": "unseen"}


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One checkpoint: what it is called in the figure, and its evaluation file."""

    label: str
    results: Results

    def success(self, split: str | None = None) -> tuple[int, int]:
        """Games won and games played, of one split or of all."""
        played = [r.won for r in self.results.records if split is None or r.evaluation_split == split]
        return sum(played), len(played)

    @property
    def invalid_actions(self) -> float:
        """Mean over all games."""
        return split_metrics(self.results.records)["invalid_actions_mean"]


def parse_files(text: str, folder: Path) -> dict[str, Path]:
    """`LABEL=FILE,LABEL=FILE` → label → path. A relative FILE stands in `folder`.

    Raises
    ------
    ResultsError
        An entry without a label or a file, or a label that stands twice.
    """
    files: dict[str, Path] = {}
    for entry in text.split(","):
        label, _, name = (part.strip() for part in entry.partition("="))
        if not label or not name:
            raise ResultsError(f"--files: {entry.strip()!r} is not LABEL=FILE")
        if label in files:
            raise ResultsError(f"--files: the label {label!r} stands twice")
        files[label] = folder / name
    return files


def report_checkpoints(files: Mapping[str, Path], output: Path, *, dpi: int) -> str:
    """Read the files (label → path), check that they can be compared, draw the figure; the table as text.

    Raises
    ------
    ResultsError
        A file is missing or damaged, or the files hold different games, base models or prompts.
    """
    require_writable(output)
    evaluated = [Evaluated(label, read_results(path)) for label, path in files.items()]
    require_comparable([one.results for one in evaluated])
    save(checkpoint_figure(evaluated), output, dpi=dpi)
    return checkpoint_table(evaluated)


def checkpoint_table(evaluated: Sequence[Evaluated]) -> str:
    """Success by split with 95 % intervals, and each checkpoint's difference to the first on the same games."""
    splits = evaluated[0].results.splits
    header = ["", *(SPLIT_NAMES.get(split, split) for split in splits), "overall", "invalid", "against the first"]
    rows = [
        [
            one.label,
            *(rate_text(*one.success(split)) for split in splits),
            rate_text(*one.success()),
            f"{one.invalid_actions:.2f}",
            "" if one is evaluated[0] else _against(evaluated[0].results.records, one.results.records),
        ]
        for one in evaluated
    ]
    differing = differing_settings([one.results for one in evaluated])
    notes = [f"note: the files differ in {name}: {', '.join(map(str, values))}" for name, values in differing.items()]
    return "\n".join([aligned([header, *rows]), *notes])


def checkpoint_figure(evaluated: Sequence[Evaluated]) -> Figure:
    """(a) success by split as bars from zero; (b) overall success and mean invalid actions over checkpoints."""
    figure = new_figure(10.5, 4.6)
    grid = figure.add_gridspec(2, 2, width_ratios=[1.25, 1])
    by_split = figure.add_subplot(grid[:, 0])
    overall = figure.add_subplot(grid[0, 1])
    invalid = figure.add_subplot(grid[1, 1], sharex=overall)
    _draw_by_split(by_split, evaluated)
    _draw_overall(overall, evaluated)
    _draw_invalid(invalid, evaluated)
    return figure


def _draw_by_split(axes: Axes, evaluated: Sequence[Evaluated]) -> None:
    splits = evaluated[0].results.splits
    width = 0.8 / len(evaluated)
    for index, (one, colour) in enumerate(zip(evaluated, _shades(len(evaluated)), strict=True)):
        places = [place + (index - (len(evaluated) - 1) / 2) * width for place in range(len(splits))]
        rates, intervals = _rates([one.success(split) for split in splits])
        axes.bar(places, rates, width * 0.92, label=one.label, color=colour)
        axes.errorbar(
            places, rates, bars_of(rates, intervals), fmt="none", ecolor=INK, elinewidth=1, capsize=3, label="_"
        )
        for place, rate, interval in zip(places, rates, intervals, strict=True):
            axes.annotate(f"{rate:.1%}", (place, interval.high), (0, 3), textcoords="offset points",
                          ha="center", fontsize=8, color=INK)  # fmt: skip
    names = [f"{SPLIT_NAMES.get(split, split)} ({evaluated[0].success(split)[1]} games)" for split in splits]
    axes.set_xticks(range(len(splits)), names)
    axes.set_ylabel("games won", color=INK)
    axes.set_title("(a) Success by split, with 95 % intervals", loc="left", fontsize=11, color=INK)
    plain(axes)
    in_percent(axes, top=1.12)
    axes.legend(frameon=False, fontsize=9, ncols=min(len(evaluated), 4), loc="upper left")


def _draw_overall(axes: Axes, evaluated: Sequence[Evaluated]) -> None:
    rates, intervals = _rates([one.success() for one in evaluated])
    axes.errorbar(
        range(len(evaluated)), rates, bars_of(rates, intervals), color=SUCCESS, marker="o", capsize=3, linewidth=1.8
    )
    axes.set_title("(b) All games, over checkpoints", loc="left", fontsize=11, color=INK)
    axes.set_ylabel("games won", color=SUCCESS)
    axes.tick_params(labelbottom=False)
    plain(axes)
    axes.tick_params(labelbottom=False)
    tops = [interval.high for interval in intervals]
    in_percent(axes, top=1.3 * max(tops))
    _label_points(axes, [f"{rate:.1%}" for rate in rates], tops, SUCCESS)


def _draw_invalid(axes: Axes, evaluated: Sequence[Evaluated]) -> None:
    means = [one.invalid_actions for one in evaluated]
    axes.plot(range(len(evaluated)), means, color=INVALID, marker="s", linewidth=1.8)
    axes.set_xticks(range(len(evaluated)), [one.label for one in evaluated])
    axes.set_xlim(-0.4, len(evaluated) - 0.6)
    axes.set_ylabel("invalid actions a game", color=INVALID)
    plain(axes)
    axes.set_ylim(0, max(means) * 1.35 or 1.0)
    _label_points(axes, [f"{mean:.2f}" for mean in means], means, INVALID)


def _label_points(axes: Axes, texts: Sequence[str], values: Sequence[float], colour: str) -> None:
    for place, (text, value) in enumerate(zip(texts, values, strict=True)):
        axes.annotate(
            text, (place, value), (0, 7), textcoords="offset points", ha="center", fontsize=8, color=colour, bbox=PAPER
        )


def _shades(count: int) -> list[str]:
    """From light to dark: later checkpoints are darker, and grey prints keep the order."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["Blues"](0.28 + 0.47 * index / max(count - 1, 1))) for index in range(count)]


def _rates(counts: Sequence[tuple[int, int]]) -> tuple[list[float], list[Interval]]:
    return [won / games for won, games in counts], [wilson(won, games) for won, games in counts]


def _against(before: Sequence[TrajectoryRecord], after: Sequence[TrajectoryRecord]) -> str:
    result = compare(before, after)
    low, high = (100 * bound for bound in result.interval)
    return (
        f"{100 * result.difference:+.1f} points [{low:+.1f}, {high:+.1f}], p = {result.p_value:.2g} "
        f"({result.gained} gained, {result.lost} lost)"
    )
