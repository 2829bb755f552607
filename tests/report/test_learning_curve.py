"""The learning curve: every point with its interval, from zero."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from agentic_rl.report import LearningPoint, learning_curve

POINTS = [LearningPoint(10, 55, 100), LearningPoint(0, 30, 100), LearningPoint(5, 41, 100)]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    figures: list[Figure] = []
    save = Figure.savefig

    def keep(self: Figure, *args: object, **kwargs: object) -> None:
        figures.append(self)
        save(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def test_points_stand_in_order_of_their_updates_with_their_intervals(tmp_path: Path, drawn: list[Figure]) -> None:
    learning_curve(POINTS, tmp_path / "curve.png")
    axes = drawn[0].axes[0]
    assert list(axes.lines[0].get_xdata()) == [0, 5, 10]
    assert list(axes.lines[0].get_ydata()) == [0.30, 0.41, 0.55]
    assert axes.get_ylim()[0] == 0
    band = {(float(x), round(float(y), 6)) for x, y in axes.collections[0].get_paths()[0].vertices}
    for point in POINTS:
        assert {(point.update, round(bound, 6)) for bound in point.interval} <= band


def test_the_file_has_the_resolution_asked_for(tmp_path: Path) -> None:
    learning_curve(POINTS, tmp_path / "new" / "curve.png", dpi=100)
    assert imread(tmp_path / "new" / "curve.png").shape[:2] == (400, 640)


def test_a_single_point_is_drawn(tmp_path: Path) -> None:
    learning_curve(POINTS[:1], tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 0
