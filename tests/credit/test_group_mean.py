"""Group-mean credit: reward minus the mean of the group, and exactly nothing where nothing differs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_rl.credit import group_mean_advantages

rewards = st.lists(st.floats(-5, 1, allow_nan=False), min_size=1, max_size=16)


def test_equals_the_golden_vectors(golden: Path) -> None:
    cases = json.loads((golden / "credit_vectors.json").read_text())["group_mean"]
    assert cases
    for case in cases:
        np.testing.assert_allclose(group_mean_advantages(case["reward"]), case["advantage"], rtol=0, atol=1e-9)


@given(st.floats(-5, 1, allow_nan=False), st.integers(1, 16))
def test_a_group_of_equal_rewards_has_advantages_of_exactly_zero(reward: float, size: int) -> None:
    # Not a matter of course: the floating-point mean of three times 0.1 is not 0.1.
    assert not group_mean_advantages([reward] * size).any()


@given(rewards)
def test_advantages_of_a_group_cancel(values: list[float]) -> None:
    assert group_mean_advantages(values).sum() == pytest.approx(0.0, abs=1e-12)


@given(rewards, st.floats(-3, 3, allow_nan=False))
def test_a_bonus_for_all_changes_nothing(values: list[float], bonus: float) -> None:
    shifted = group_mean_advantages(np.add(values, bonus))
    np.testing.assert_allclose(shifted, group_mean_advantages(values), atol=1e-12)


@pytest.mark.parametrize("bad", [[], [[1.0]], [float("nan"), 1.0], [float("inf")]])
def test_refuses_what_is_not_a_group(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="rewards"):
        group_mean_advantages(bad)
