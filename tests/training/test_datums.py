"""From trajectories and credit to datums: shifted by one, and only sampled tokens carry anything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_rl.games.generate import household_games
from agentic_rl.rollout.trajectory import Group, StopReason, Trajectory, Turn
from agentic_rl.training.datums import batch_metrics, build_datum, build_datums

GAME = household_games("train", 1, 1, 0)[0]


def trajectory(spans: list[tuple[int, int]], length: int, index: int = 0) -> Trajectory:
    """A trajectory whose token at position i is i, with log-prob −i where it was sampled."""
    turns = tuple(
        Turn(
            step=step,
            observation="",
            admissible_actions=(),
            assistant_text="",
            call_id=f"call_{step}",
            action="look",
            valid_format=True,
            admissible=True,
            tool_response="",
            next_observation="",
            environment_score=0.0,
            done=False,
            won=False,
            start=start,
            end=end,
            logprobs=-np.arange(start, end, dtype=np.float64),
        )
        for step, (start, end) in enumerate(spans, start=1)
    )
    return Trajectory(
        game=GAME,
        group_id="1:g",
        group_index=index,
        task="",
        initial_observation="",
        system="",
        user="",
        tokens=np.arange(length, dtype=np.int64),
        turns=turns,
        stop_reason=StopReason.MAX_TURNS,
    )


def test_a_datum_by_hand() -> None:
    datum = build_datum(trajectory([(2, 4), (6, 7)], 7), np.array([0.5, -1.0]))
    assert datum.tokens.tolist() == [0, 1, 2, 3, 4, 5]
    assert datum.targets.tolist() == [1, 2, 3, 4, 5, 6]
    assert datum.sampled.tolist() == [False, True, True, False, False, True]
    assert datum.old_logprobs.tolist() == [0, -2, -3, 0, 0, -6]
    assert datum.advantages.tolist() == [0, 0.5, 0.5, 0, 0, -1.0]


@st.composite
def trajectories(draw: st.DrawFn) -> tuple[Trajectory, np.ndarray]:
    lengths = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5)), min_size=1, max_size=6))
    spans, position = [], 0
    for between, sampled in lengths:
        spans.append((position + between, position + between + sampled))
        position += between + sampled
    advantages = draw(st.lists(st.floats(-3, 3), min_size=len(spans), max_size=len(spans)))
    return trajectory(spans, position), np.array(advantages)


@given(trajectories())
def test_exactly_the_sampled_tokens_carry_log_probs_and_advantages(case: tuple[Trajectory, np.ndarray]) -> None:
    played, advantages = case
    datum = build_datum(played, advantages)
    assert len({len(datum.tokens), len(datum.targets), len(datum.sampled), len(datum.advantages)}) == 1
    np.testing.assert_array_equal(datum.targets[:-1], datum.tokens[1:])
    assert int(datum.sampled.sum()) == sum(turn.end - turn.start for turn in played.turns)
    assert not datum.advantages[~datum.sampled].any()
    assert not datum.old_logprobs[~datum.sampled].any()
    for turn, advantage in zip(played.turns, advantages, strict=True):
        at = slice(turn.start - 1, turn.end - 1)
        assert datum.targets[at].tolist() == played.tokens[turn.start : turn.end].tolist()
        assert datum.old_logprobs[at].tolist() == turn.logprobs.tolist()
        assert (datum.advantages[at] == advantage).all()


def test_trajectories_without_advantage_are_left_out() -> None:
    group = Group(GAME, "1:g", (trajectory([(1, 3)], 3, 0), trajectory([(1, 4)], 4, 1)))
    datums = build_datums([group], {("1:g", 0): np.array([0.0]), ("1:g", 1): np.array([1.0])})
    assert [len(datum.targets) for datum in datums] == [3]
    assert batch_metrics(datums, sampled_name="loss_tokens") == {
        "train/nonzero_trajectory_datums": 1,
        "train/batch_size": 1,
        "train/tokens": 3,
        "train/loss_tokens": 3,
        "train/max_sequence_tokens": 3,
    }


def test_credit_for_another_number_of_turns_is_refused() -> None:
    with pytest.raises(ValueError, match="2 advantages for 1 turns"):
        build_datum(trajectory([(1, 2)], 2), np.array([1.0, 2.0]))
