"""AgentOPSD's credit: equal to the recorded vectors, and true to what the method promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_rl.credit import TurnCredit, agent_opsd, agent_opsd_metrics

type Group = tuple[list[float], list[list[float]]]

unit = st.floats(0, 1)
turns = st.lists(st.floats(-40, 40, allow_nan=False), max_size=12)


@st.composite
def groups(draw: st.DrawFn, minimum: int = 1) -> Group:
    size = draw(st.integers(minimum, 8))
    rewards = draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=size, max_size=size))
    return rewards, draw(st.lists(turns, min_size=size, max_size=size))


def assert_equal(credit: TurnCredit, expected: dict[str, Any], atol: float = 1e-9) -> None:
    np.testing.assert_allclose(credit.sequence_advantage, expected["sequence_advantage"], rtol=0, atol=atol)
    assert credit.initial_belief == pytest.approx(expected["initial_belief"], rel=0, abs=atol)
    for name in ("belief", "weight", "turn_advantage"):
        ours = getattr(credit, name)
        assert len(ours) == len(expected[name])
        for mine, theirs in zip(ours, expected[name], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol)


def test_every_intermediate_value_equals_the_golden_vectors(golden: Path) -> None:
    cases = json.loads((golden / "credit_vectors.json").read_text())["agentopsd"]
    assert cases
    for case in cases:
        assert_equal(agent_opsd(case["rewards"], case["evidence"], **case["config"]), case)


def test_a_case_worked_by_hand() -> None:
    # A = ±0.5 / (0.5 + 0.5) = ±0.5; b₀ = 0.5; the winner's belief goes to σ(ln 3) = 3/4, then to σ(ln 3 / 2 + ln 1).
    credit = agent_opsd([1.0, 0.0], [[np.log(3.0), 0.0], [0.0]], gamma=0.5, epsilon=0.4999999999999999)
    half = np.sqrt(3.0) / (1.0 + np.sqrt(3.0))
    np.testing.assert_allclose(credit.sequence_advantage, [0.5, -0.5], atol=1e-12)
    np.testing.assert_allclose(credit.belief[0], [0.75, half], atol=1e-12)
    delta = np.array([0.25, half - 0.75])
    z = (delta - delta.mean()) / (delta.std() + 0.5)
    np.testing.assert_allclose(credit.weight[0], 1 + 0.2 * z, atol=1e-12)
    np.testing.assert_allclose(credit.turn_advantage[0], 0.5 * (0.5 + 0.5 * (1 + 0.2 * z)), atol=1e-12)
    np.testing.assert_allclose(credit.turn_advantage[1], [-0.5], atol=1e-12)


@given(groups(), unit, unit, unit)
def test_the_teacher_changes_a_turn_by_at_most_lambda_beta(
    group: Group, gamma: float, reshape_lambda: float, weight_bound: float
) -> None:
    rewards, evidence = group
    credit = agent_opsd(rewards, evidence, gamma=gamma, reshape_lambda=reshape_lambda, weight_bound=weight_bound)
    for a, turn_advantage in zip(credit.sequence_advantage, credit.turn_advantage, strict=True):
        assert np.all(np.abs(turn_advantage - a) <= abs(a) * reshape_lambda * weight_bound + 1e-12)


@given(groups())
def test_the_outcome_gives_every_turn_its_sign(group: Group) -> None:
    credit = agent_opsd(*group)
    for a, turn_advantage in zip(credit.sequence_advantage, credit.turn_advantage, strict=True):
        assert np.all(np.sign(turn_advantage) == np.sign(a))


@given(groups(), unit)
def test_no_evidence_leaves_the_sequence_advantage_as_it_is(group: Group, gamma: float) -> None:
    rewards, evidence = group
    credit = agent_opsd(rewards, [[0.0] * len(trace) for trace in evidence], gamma=gamma)
    for a, turn_advantage, change in zip(
        credit.sequence_advantage, credit.turn_advantage, credit.belief_change, strict=True
    ):
        assert not change.any()
        assert np.all(turn_advantage == a)


@given(groups())
def test_lambda_zero_or_beta_zero_switches_the_teacher_off(group: Group) -> None:
    for off in (agent_opsd(*group, reshape_lambda=0.0), agent_opsd(*group, weight_bound=0.0)):
        for a, turn_advantage in zip(off.sequence_advantage, off.turn_advantage, strict=True):
            assert np.all(turn_advantage == a)


@given(groups(), st.randoms(use_true_random=False))
def test_the_order_of_trajectories_does_not_matter(group: Group, random: Any) -> None:
    rewards, evidence = group
    order = list(range(len(rewards)))
    random.shuffle(order)
    straight = agent_opsd(rewards, evidence)
    shuffled = agent_opsd([rewards[i] for i in order], [evidence[i] for i in order])
    for place, i in enumerate(order):
        np.testing.assert_allclose(shuffled.turn_advantage[place], straight.turn_advantage[i], atol=1e-9)


@given(groups())
def test_success_and_failure_swapped_with_the_evidence_swaps_the_signs(group: Group) -> None:
    rewards, evidence = group
    straight = agent_opsd(rewards, evidence)
    mirrored = agent_opsd(np.subtract(1.0, rewards), [np.negative(trace) for trace in evidence])
    for one, other in zip(straight.turn_advantage, mirrored.turn_advantage, strict=True):
        np.testing.assert_allclose(one, np.negative(other), atol=1e-8)


@given(groups(), st.floats(1e3, 1e300))
@settings(max_examples=50)
def test_saturating_beliefs_stay_finite_and_in_bounds(group: Group, scale: float) -> None:
    rewards, evidence = group
    credit = agent_opsd(rewards, [np.multiply(trace, scale) for trace in evidence])
    for belief, turn_advantage in zip(credit.belief, credit.turn_advantage, strict=True):
        assert np.all((belief >= 0.0) & (belief <= 1.0))
        assert np.isfinite(turn_advantage).all()


@pytest.mark.parametrize("reward", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_group_without_contrast_has_no_credit_at_all(reward: float, size: int) -> None:
    credit = agent_opsd([reward] * size, [[1.0, -2.0, 3.0]] * size)
    assert not credit.sequence_advantage.any()
    assert not np.concatenate(credit.turn_advantage).any()
    assert np.all(np.concatenate(credit.weight) == 1.0)


def test_one_turn_weighs_one_and_no_turn_gives_empty_arrays() -> None:
    credit = agent_opsd([1.0, 0.0], [[5.0], []])
    assert credit.weight[0].tolist() == [1.0]
    assert credit.turn_advantage[0] == credit.sequence_advantage[0]
    assert credit.belief[1].shape == credit.weight[1].shape == credit.turn_advantage[1].shape == (0,)


@pytest.mark.parametrize("name", ["gamma", "reshape_lambda", "weight_bound", "epsilon"])
@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan")])
def test_hyperparameters_out_of_range_are_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        agent_opsd([1.0, 0.0], [[1.0], [1.0]], **{name: value})


@pytest.mark.parametrize(
    ("rewards", "evidence", "message"),
    [
        ([1.0, 0.0], [[1.0]], "2 rewards, but evidence for 1"),
        ([1.0], [[float("nan")]], "evidence of trajectory 0"),
        ([1.0], [[[1.0]]], "one number a turn"),
        ([], [], "at least one trajectory"),
        ([float("inf")], [[]], "finite"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(rewards: list[float], evidence: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agent_opsd(rewards, evidence)


def test_metrics_are_means_and_extremes_over_all_turns() -> None:
    groups = [([1.0, 0.0], [[1.0, -3.0], [2.0]]), ([0.0, 0.0], [[0.0], []])]
    credits = [agent_opsd(rewards, evidence) for rewards, evidence in groups]
    metrics = agent_opsd_metrics(credits, [evidence for _, evidence in groups])
    assert metrics["opsd/evidence_mean"] == 0.0
    assert metrics["opsd/evidence_abs_mean"] == 1.5
    assert metrics["opsd/weight_mean"] == pytest.approx(1.0)
    assert metrics["opsd/weight_max"] == max(w.max() for c in credits for w in c.weight if w.size)
    assert metrics["opsd/adv_multiplier_min"] == pytest.approx(0.5 + 0.5 * metrics["opsd/weight_min"])
    assert agent_opsd_metrics([agent_opsd([1.0], [[]])], [[[]]]) == {}
