"""The figure shows the files' numbers, from zero, with their intervals; the table says them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Annotation
from played import evaluation, game, step, summary

from agentic_rl.errors import ResultsError
from agentic_rl.report import Evaluated, checkpoint_figure, checkpoint_table, parse_files, report_checkpoints
from agentic_rl.results import read_results, wilson, write_records

# Games won of 10 seen and 8 unseen, and invalid actions a game.
PLAYED = {"Base": (3, 2, 4), "Step 40": (5, 2, 3), "Step 80": (6, 7, 1)}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return {label: checkpoint(tmp_path / f"{label}.jsonl", *played) for label, played in PLAYED.items()}


def checkpoint(path: Path, seen: int, unseen: int, invalid: int) -> Path:
    turns = [step(number, admissible=number > invalid) for number in range(1, 7)]
    games = [game(n, won=n < seen, steps=turns) for n in range(10)]
    games += [game(n, won=n < unseen, steps=turns, split="valid_unseen") for n in range(8)]
    return evaluation(path, games)


@pytest.fixture
def evaluated(files: dict[str, Path]) -> list[Evaluated]:
    return [Evaluated(label, read_results(path)) for label, path in files.items()]


def panels(figure: Figure) -> tuple[Axes, Axes, Axes]:
    by_split, overall, invalid = figure.axes
    return by_split, overall, invalid


def annotations(axes: Axes) -> list[str]:
    return [child.get_text() for child in axes.texts if isinstance(child, Annotation)]


def error_bars(axes: Axes) -> list[tuple[float, float]]:
    containers = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    segments = [segment for c in containers for segment in c.lines[2][0].get_segments()]
    return [(float(low), float(high)) for (_, low), (_, high) in segments]


def test_every_bar_starts_at_zero_and_is_as_high_as_its_rate(evaluated: list[Evaluated]) -> None:
    axes, _, _ = panels(checkpoint_figure(evaluated))
    bars = axes.patches
    assert [bar.get_y() for bar in bars] == [0] * 6
    assert [bar.get_height() for bar in bars] == pytest.approx([0.3, 0.25, 0.5, 0.25, 0.6, 0.875])
    assert axes.get_ylim()[0] == 0


def test_bars_of_one_split_stand_together_in_the_order_of_the_files(evaluated: list[Evaluated]) -> None:
    axes, _, _ = panels(checkpoint_figure(evaluated))
    centres = [bar.get_x() + bar.get_width() / 2 for bar in axes.patches]
    seen, unseen = centres[0::2], centres[1::2]
    assert seen == sorted(seen)
    assert unseen == sorted(unseen)
    assert max(seen) < 0.5 < min(unseen)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["seen (10 games)", "unseen (8 games)"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Base", "Step 40", "Step 80"]


def test_every_bar_has_its_wilson_interval_and_its_number(evaluated: list[Evaluated]) -> None:
    axes, _, _ = panels(checkpoint_figure(evaluated))
    wins = [(3, 10), (2, 8), (5, 10), (2, 8), (6, 10), (7, 8)]
    assert error_bars(axes) == [pytest.approx(wilson(won, games)) for won, games in wins]
    assert annotations(axes) == ["30.0%", "25.0%", "50.0%", "25.0%", "60.0%", "87.5%"]


def test_the_second_panel_has_all_games_and_the_invalid_actions(evaluated: list[Evaluated]) -> None:
    _, overall, invalid = panels(checkpoint_figure(evaluated))
    assert list(overall.lines[0].get_ydata()) == pytest.approx([5 / 18, 7 / 18, 13 / 18])
    assert error_bars(overall) == [pytest.approx(wilson(won, 18)) for won in (5, 7, 13)]
    assert list(invalid.lines[0].get_ydata()) == [4, 3, 1]
    assert overall.get_ylim()[0] == invalid.get_ylim()[0] == 0
    assert [label.get_text() for label in invalid.get_xticklabels()] == ["Base", "Step 40", "Step 80"]


def test_a_perfect_and_a_hopeless_checkpoint_are_drawn(tmp_path: Path) -> None:
    files = [checkpoint(tmp_path / "a.jsonl", 0, 0, 0), checkpoint(tmp_path / "b.jsonl", 10, 8, 0)]
    figure = checkpoint_figure([Evaluated(path.stem, read_results(path)) for path in files])
    figure.draw_without_rendering()
    assert error_bars(panels(figure)[1]) == [pytest.approx(wilson(won, 18)) for won in (0, 18)]


def test_the_table_says_rates_intervals_and_the_difference_on_the_same_games(evaluated: list[Evaluated]) -> None:
    header, base, step40, step80 = checkpoint_table(evaluated).splitlines()
    assert header.split() == ["seen", "unseen", "overall", "invalid", "against", "the", "first"]
    assert base.startswith("Base")
    assert base.endswith("4.00")
    assert "30.00% [10.8%, 60.3%]" in base
    assert "+11.1 points" in step40
    assert "(2 gained, 0 lost)" in step40
    assert "+44.4 points" in step80
    assert "p = 0.0078" in step80


def test_the_table_notes_settings_that_differ(tmp_path: Path) -> None:
    games, evaluated = [game(1, won=True)], []
    for label, seed in (("Base", 42), ("Other", 43)):
        path = tmp_path / f"{label}.jsonl"
        write_records(path, games, replace(summary(games), settings={"seed": seed}))
        evaluated.append(Evaluated(label, read_results(path)))
    assert checkpoint_table(evaluated).splitlines()[-1] == "note: the files differ in seed: 42, 43"


@pytest.mark.parametrize(("dpi", "width"), [(300, 3150), (150, 1575)])
def test_the_figure_has_the_resolution_asked_for(files: dict[str, Path], tmp_path: Path, dpi: int, width: int) -> None:
    output = tmp_path / "images" / "new" / "figure.png"
    report_checkpoints(files, output, dpi=dpi)
    assert imread(output).shape[1] == width


def test_a_format_that_cannot_be_drawn_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"figure.jsonl should end in .png, .pdf or .svg"):
        report_checkpoints({"Base": tmp_path / "absent"}, tmp_path / "figure.jsonl", dpi=150)


def test_files_of_different_games_leave_no_figure(files: dict[str, Path], tmp_path: Path) -> None:
    evaluation(files["Step 80"], [game(1, won=True)])
    with pytest.raises(ResultsError, match="different games"):
        report_checkpoints(files, tmp_path / "figure.png", dpi=150)
    assert not (tmp_path / "figure.png").exists()


def test_files_are_named_by_their_labels_in_order() -> None:
    files = parse_files("Base=a.jsonl, Step 5 = /tmp/b=c.jsonl", Path("results"))
    assert list(files.items()) == [("Base", Path("results/a.jsonl")), ("Step 5", Path("/tmp/b=c.jsonl"))]


@pytest.mark.parametrize("text", ["", "a.jsonl", "=a.jsonl", "Base=", "Base=a.jsonl,", "Base=a.jsonl,Base=b.jsonl"])
def test_a_list_of_files_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ResultsError, match="--files: "):
        parse_files(text, Path("results"))
