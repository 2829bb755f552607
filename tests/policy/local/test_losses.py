"""Losses against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from agentic_rl.policy.local import losses


def run(loss: losses.TokenLoss, logprobs: list[float], old: list[float], advantages: list[float]):
    """Values and gradients of a token loss."""
    variable = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    value = loss(variable, torch.tensor(old, dtype=torch.float64), torch.tensor(advantages, dtype=torch.float64))
    value.sum().backward()
    assert variable.grad is not None
    return value.detach().numpy(), variable.grad.numpy()


def test_ppo_by_hand() -> None:
    # ratios 1, 1.5, 1.5, 0.5, 0.5 and bounds 0.8, 1.2; the gradient of r A by log p is r A, and 0 where the clip rules
    ratio = [1.0, 1.5, 1.5, 0.5, 0.5]
    advantage = [2.0, 2.0, -2.0, 2.0, -2.0]
    value, gradient = run(losses.ppo(0.8, 1.2), [math.log(r) for r in ratio], [0.0] * 5, advantage)
    np.testing.assert_allclose(value, [-2.0, -2.4, 3.0, -1.0, 1.6])
    np.testing.assert_allclose(gradient, [-2.0, 0.0, 3.0, -1.0, 0.0])


def test_ppo_bounds_are_absolute_and_need_not_be_symmetric() -> None:
    value, _ = run(losses.ppo(0.8, 1.24), [math.log(2.0)] * 2, [0.0] * 2, [1.0, 0.0])
    np.testing.assert_allclose(value, [-1.24, 0.0])


def test_the_other_losses_by_hand() -> None:
    logprobs, old, advantages = [math.log(0.5), math.log(0.1)], [math.log(0.25), math.log(0.2)], [1.0, -3.0]
    value, gradient = run(losses.importance_sampling, logprobs, old, advantages)
    np.testing.assert_allclose(value, [-2.0, 1.5])
    np.testing.assert_allclose(gradient, [-2.0, 1.5])
    value, gradient = run(losses.cispo(0.8, 1.2), logprobs, old, advantages)
    np.testing.assert_allclose(gradient, [-1.2, 2.4])
    np.testing.assert_allclose(value, [-1.2 * math.log(0.5), 2.4 * math.log(0.1)])
    value, gradient = run(losses.dro(0.5), logprobs, old, advantages)
    gap = np.array([math.log(2.0), math.log(0.5)])
    np.testing.assert_allclose(value, [-math.log(0.5), 3 * math.log(0.1)] + 0.25 * gap**2)
    np.testing.assert_allclose(gradient, np.array([-1.0, 3.0]) + 0.5 * gap)
    value, gradient = run(losses.cross_entropy, logprobs, old, advantages)
    np.testing.assert_allclose(value, [-math.log(0.5), -math.log(0.1)])
    np.testing.assert_allclose(gradient, [-1.0, -1.0])


def test_reductions_by_hand() -> None:
    masks = [np.array([0, 1, 1, 1], bool), np.array([1], bool), np.array([0, 0], bool)]
    token_mean = losses.reduction_weights(masks, "token_mean")
    np.testing.assert_allclose(np.concatenate(token_mean), [0, 0.25, 0.25, 0.25, 0.25, 0, 0])
    sequence_mean = losses.reduction_weights(masks, "sequence_mean")
    np.testing.assert_allclose(np.concatenate(sequence_mean), [0, 1 / 9, 1 / 9, 1 / 9, 1 / 3, 0, 0])
    plain_sum = losses.reduction_weights(masks, "sum")
    np.testing.assert_allclose(np.concatenate(plain_sum), [0, 1, 1, 1, 1, 0, 0])
    with pytest.raises(ValueError, match="harmonic"):
        losses.reduction_weights(masks, "harmonic")  # type: ignore[arg-type]


def test_ratio_metrics_by_hand() -> None:
    ratio = np.array([1.0, 1.5, 1.5, 0.5, 0.5])
    metrics = losses.ratio_metrics(np.log(ratio), np.zeros(5), np.array([1.0, 1, -1, 1, -1]), 0.8, 1.2)
    assert metrics["ratio_mean"] == pytest.approx(1.0)
    assert metrics["ratio_max"] == pytest.approx(1.5)
    assert metrics["clip_fraction"] == pytest.approx(0.4)
    assert metrics["approx_kl"] == pytest.approx(-(2 * math.log(1.5) + 2 * math.log(0.5)) / 5)
    assert losses.ratio_metrics(np.zeros(0), np.zeros(0), np.zeros(0), 0.8, 1.2)["ratio_mean"] == 1.0
