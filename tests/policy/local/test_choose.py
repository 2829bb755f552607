"""From logits to tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agentic_rl.policy.local.choose import Choice, choose_tokens, random_stream

PROBABILITIES = [0.5, 0.25, 0.15, 0.1]
LOGITS = torch.tensor([PROBABILITIES]).log()


def choose(choice: Choice, uniform: float) -> int:
    return int(choose_tokens(LOGITS, [choice], [uniform])[0])


@pytest.mark.parametrize(("uniform", "token"), [(0.0, 0), (0.49, 0), (0.51, 1), (0.76, 2), (0.91, 3), (0.9999999, 3)])
def test_the_cumulative_distribution_decides(uniform: float, token: int) -> None:
    assert choose(Choice(), uniform) == token


def test_truncation_keeps_the_token_that_crosses_the_bound() -> None:
    assert choose(Choice(top_p=0.6), 0.999) == 1
    assert choose(Choice(top_p=0.5), 0.999) == 0
    assert choose(Choice(top_p=1e-9), 0.999) == 0
    assert choose(Choice(top_k=3), 0.999) == 2
    assert choose(Choice(top_p=0.6, top_k=1), 0.999) == 0


def test_temperature_sharpens_and_zero_is_greedy() -> None:
    assert choose(Choice(temperature=0.01), 0.999) == 0
    assert choose(Choice(temperature=0.0), 0.999) == 0
    assert choose(Choice(temperature=100.0), 0.76) == 3


def test_rows_with_different_settings_share_a_call() -> None:
    rows = LOGITS.repeat(3, 1)
    chosen = choose_tokens(rows, [Choice(), Choice(top_k=1), Choice(temperature=0.0)], [0.95, 0.95, 0.95])
    assert chosen.tolist() == [3, 0, 0]


def test_a_forbidden_token_is_never_chosen() -> None:
    logits = torch.tensor([[0.0, -torch.inf, 0.0, -torch.inf]])
    assert {int(choose_tokens(logits, [Choice()], [u])[0]) for u in np.linspace(0, 1 - 1e-12, 101)} == {0, 2}


def test_frequencies_follow_the_probabilities() -> None:
    stream = random_stream(7, 0)
    uniforms = [stream.random() for _ in range(4000)]
    chosen = choose_tokens(LOGITS.repeat(4000, 1), [Choice()] * 4000, uniforms).numpy()
    np.testing.assert_allclose(np.bincount(chosen, minlength=4) / 4000, PROBABILITIES, atol=0.025)


def test_streams_differ_by_seed_and_index_and_repeat() -> None:
    draws = {(seed, j): random_stream(seed, j).random() for seed in (0, 1, 2**31 - 1) for j in (0, 1)}
    assert len(set(draws.values())) == 6
    assert random_stream(1, 1).random() == draws[1, 1]
