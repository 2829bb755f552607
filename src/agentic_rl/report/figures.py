"""What every figure has in common: its look, and how it is saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentic_rl.errors import ResultsError
from agentic_rl.results.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUCCESS, INVALID, INK = "#1f5a94", "#b5533c", "#3a3a3a"
FORMATS = (".png", ".pdf", ".svg")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches, apart from any window or global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def plain(axes: Axes) -> None:
    """Take away what carries no number."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)


def in_percent(axes: Axes, *, top: float = 1.0) -> None:
    """A share on the y axis, from zero, in per cent. Room above 100 % gets no ticks."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axes.set_ylim(0, top)
    ticks = MaxNLocator(nbins=5).tick_values(0, min(top, 1.0))
    axes.set_yticks([tick for tick in ticks if 0 <= tick <= min(top, 1.0)])
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))


def bars_of(values: Sequence[float], intervals: Sequence[Interval]) -> list[list[float]]:
    """Error bars as matplotlib wants them: how far down, how far up. Never negative, whatever rounding says."""
    return [
        [max(0.0, value - interval.low) for value, interval in zip(values, intervals, strict=True)],
        [max(0.0, interval.high - value) for value, interval in zip(values, intervals, strict=True)],
    ]


def require_writable(path: Path) -> None:
    """Raise, before any work is done, if no figure could be saved at `path`."""
    if path.suffix.lower() not in FORMATS:
        raise ResultsError(f"--output {path} should end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if path.is_dir():
        raise ResultsError(f"--output {path} is a folder", hint="Name a file in it")


def save(figure: Figure, path: Path, *, dpi: int) -> None:
    """Write the figure, making its folder."""
    require_writable(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=dpi)
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error.strerror or error}") from error
