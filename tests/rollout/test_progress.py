"""Bars on a terminal, one line an update elsewhere."""

from __future__ import annotations

import io

import pytest
from test_rollout_metrics import LIGHT, trajectory

from agentic_rl.rollout import RolloutProgress, StopReason


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def one_update(progress: RolloutProgress) -> None:
    progress.begin(3, "rollout")
    progress.on_start(3)
    for reason in (StopReason.WON, StopReason.MAX_TURNS):
        progress.on_turn()
        progress.on_turn()
        progress.on_trajectory_end(trajectory(LIGHT, reason))
    progress.on_trajectory_dropped()
    progress.phase("update")
    progress.end(3, {"reward/mean": 0.5, "reward/success_rate": 0.25, "train/tokens": 1e6})


def test_no_terminal_means_one_line_an_update() -> None:
    stream = io.StringIO()
    with RolloutProgress(updates=80, finished=2, stream=stream) as progress:
        one_update(progress)
        one_update(progress)
    first, second = stream.getvalue().splitlines()
    assert first.startswith("update 3/80: 2 trajectories, 4 turns, 1 dropped, reward 0.5, success 0.25, ")
    assert second.startswith("update 3/80: 2 trajectories, 4 turns, 1 dropped")


def test_a_terminal_shows_two_nested_bars_with_the_phase() -> None:
    terminal = Terminal()
    with RolloutProgress(updates=80, finished=2, stream=terminal) as progress:
        one_update(progress)
    drawn = terminal.getvalue()
    assert "updates (rollout)" in drawn
    assert "updates (update)" in drawn
    assert "/80" in drawn
    assert "/3" in drawn
    assert "won=1" in drawn
    assert "dropped=1" in drawn
    assert "success=0.25" in drawn


def test_an_evaluation_has_one_bar_only() -> None:
    terminal = Terminal()
    with RolloutProgress(stream=terminal) as progress:
        progress.on_start(274)
        progress.on_trajectory_end(trajectory(LIGHT, StopReason.WON))
    assert "/274" in terminal.getvalue()
    assert "updates" not in terminal.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_lines_for_the_user_go_to_standard_output(stream: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    with RolloutProgress(updates=1, stream=stream) as progress:
        progress.write("Saved state: local://run/training_state/x")
    assert capsys.readouterr().out == "Saved state: local://run/training_state/x\n"
