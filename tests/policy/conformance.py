"""What every backend must do, as checks that run against any of them.

A backend's own test makes a `Subject` over the tiny model and runs each function of `CHECKS`, and each of
`COMPARISONS` against the local backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from agentic_rl.errors import AgenticRLError
from agentic_rl.policy.protocol import (
    AdamConfig,
    Completion,
    Datum,
    FinishReason,
    FloatArray,
    LossConfig,
    LossReduction,
    Policy,
    Sampler,
    SamplingParams,
    SavedPaths,
)


@dataclass(frozen=True)
class Subject:
    """How to open a backend on the tiny model, with adapter seed 0 and rank 8.

    `open_policy(None)` starts afresh, `open_policy(state path)` resumes; `open_sampler(sampler path)`.
    """

    open_policy: Callable[[str | None], Awaitable[Policy]]
    open_sampler: Callable[[str | None], Awaitable[Sampler]]


PROMPT = [40 + 3 * i % 200 for i in range(30)]
ADAM = AdamConfig(learning_rate=0.01)
TOLERANCE = 1e-5


async def gives_n_completions_with_their_logprobs(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    sampler = await policy.snapshot()
    completions = await sampler.sample(PROMPT, 5, SamplingParams(max_tokens=12, seed=3))
    assert len(completions) == 5
    assert len({completion.tokens for completion in completions}) > 1
    for completion in completions:
        assert len(completion.tokens) == len(completion.logprobs) == 12
        assert completion.finish_reason is FinishReason.LENGTH
        scores = await sampler.score([*PROMPT, *completion.tokens])
        np.testing.assert_allclose(scores[len(PROMPT) :], completion.logprobs, atol=TOLERANCE)
    await policy.aclose()


async def logprobs_are_the_models_own_at_any_temperature(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    sampler = await policy.snapshot()
    for params in (
        SamplingParams(max_tokens=8, temperature=0.3, seed=1),
        SamplingParams(max_tokens=8, temperature=2.0, top_p=0.5, seed=1),
        SamplingParams(max_tokens=8, temperature=0.0),
    ):
        (completion,) = await sampler.sample(PROMPT, 1, params)
        scores = await sampler.score([*PROMPT, *completion.tokens])
        np.testing.assert_allclose(scores[len(PROMPT) :], completion.logprobs, atol=TOLERANCE)
    await policy.aclose()


async def scores_have_a_zero_first_and_one_entry_a_token(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    sampler = await policy.snapshot()
    scores = await sampler.score(PROMPT)
    assert scores.shape == (len(PROMPT),)
    assert scores[0] == 0
    assert (scores[1:] < 0).all()
    np.testing.assert_allclose((await sampler.score(PROMPT[:10])), scores[:10], atol=TOLERANCE)
    await policy.aclose()


async def a_seed_settles_a_sample_whatever_else_is_in_flight(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    sampler = await policy.snapshot()

    async def sample(seed: int, n: int = 2) -> list[Completion]:
        return await sampler.sample(PROMPT[: 10 + seed % 7], n, SamplingParams(max_tokens=6 + seed % 5, seed=seed))

    alone = [await sample(seed) for seed in range(8)]
    together = await asyncio.gather(*(sample(seed) for seed in reversed(range(8))))
    assert [tokens_of(found) for found in reversed(together)] == [tokens_of(found) for found in alone]
    assert len({tokens_of(found) for found in alone}) == 8
    wider = await sample(3, n=4)
    assert tokens_of(wider[:2]) == tokens_of(alone[3]), "completion j depends on (seed, j), not on n"
    await policy.aclose()


async def temperature_zero_is_greedy(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    sampler = await policy.snapshot()
    first, second = [
        await sampler.sample(PROMPT, 2, SamplingParams(max_tokens=10, temperature=0.0, seed=seed)) for seed in (1, 2)
    ]
    assert len({completion.tokens for completion in (*first, *second)}) == 1
    await policy.aclose()


async def a_stop_token_ends_a_completion(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    sampler = await policy.snapshot()
    (free,) = await sampler.sample(PROMPT, 1, SamplingParams(max_tokens=20, seed=4))
    stop = free.tokens[7]
    place = free.tokens.index(stop)
    (stopped,) = await sampler.sample(PROMPT, 1, SamplingParams(max_tokens=20, seed=4, stop_token_ids=(stop,)))
    assert stopped.finish_reason is FinishReason.STOP
    assert stopped.tokens in (free.tokens[: place + 1], free.tokens[:place])
    await policy.aclose()


async def a_snapshot_stays_as_it_was(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    before = await policy.snapshot()
    scores = await before.score(PROMPT)
    await policy.update(datums(), LossConfig(), ADAM)
    after = await policy.snapshot()
    np.testing.assert_array_equal(await before.score(PROMPT), scores)
    assert np.abs(await after.score(PROMPT) - scores).max() > 1e-4
    assert before.id != after.id
    await before.aclose()
    await before.aclose()
    await policy.aclose()


async def an_update_makes_praised_tokens_likelier(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    old = await (await policy.snapshot()).score(PROMPT)
    praised = datum(PROMPT, old, advantage=1.0, sampled=range(10, 30))
    metrics = await policy.update([praised], LossConfig(), AdamConfig(learning_rate=1e-3))
    new = await (await policy.snapshot()).score(PROMPT)
    assert new[10:].sum() > old[10:].sum()
    assert all(name.startswith(("trainer/", "optimizer/", "time/")) for name in metrics)
    assert all(np.isfinite(value) for value in metrics.values())
    await policy.aclose()


async def a_saved_state_goes_on_like_the_run_that_saved_it(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    await policy.update(datums(1), LossConfig(), ADAM)
    saved = await policy.save("conformance-update-1")
    await policy.update(datums(2), LossConfig(), ADAM)
    straight = await (await policy.snapshot()).score(PROMPT)
    resumed = await subject.open_policy(saved.state)
    await resumed.update(datums(2), LossConfig(), ADAM)
    np.testing.assert_array_equal(await (await resumed.snapshot()).score(PROMPT), straight)
    await resumed.aclose()
    await policy.aclose()


async def saved_sampler_weights_sample_like_the_snapshot(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    await policy.update(datums(), LossConfig(), ADAM)
    snapshot = await policy.snapshot()
    saved = await policy.save("conformance-final")
    assert saved.sampler != saved.state
    loaded = await subject.open_sampler(saved.sampler)
    params = SamplingParams(max_tokens=10, seed=9)
    assert tokens_of(await loaded.sample(PROMPT, 2, params)) == tokens_of(await snapshot.sample(PROMPT, 2, params))
    np.testing.assert_allclose(await loaded.score(PROMPT), await snapshot.score(PROMPT), atol=TOLERANCE)
    base = await subject.open_sampler(None)
    assert np.abs(await base.score(PROMPT) - await loaded.score(PROMPT)).max() > 1e-4
    await base.aclose()
    await loaded.aclose()
    await policy.aclose()


async def a_run_that_goes_on_leaves_what_was_saved_as_it_was(subject: Subject) -> None:
    """From an earlier state it comes to the same names again, with other weights."""
    policy = await subject.open_policy(None)
    await policy.update(datums(1), LossConfig(), ADAM)
    early = await policy.save("conformance-early")
    await policy.update(datums(2), LossConfig(), ADAM)
    first = await policy.save("conformance-again")
    before = await score_of(subject, first)
    resumed = await subject.open_policy(early.state)
    await resumed.update(datums(3), LossConfig(), ADAM)
    second = await resumed.save("conformance-again")
    assert {first.state, first.sampler}.isdisjoint({second.state, second.sampler})
    np.testing.assert_array_equal(await score_of(subject, first), before)
    assert np.abs(await score_of(subject, second) - before).max() > 1e-4
    await resumed.aclose()
    await policy.aclose()


async def score_of(subject: Subject, saved: SavedPaths) -> FloatArray:
    sampler = await subject.open_sampler(saved.sampler)
    found = await sampler.score(PROMPT)
    await sampler.aclose()
    return found


async def many_calls_at_once_all_come_back(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    sampler = await policy.snapshot()
    samples = [sampler.sample(PROMPT[: 5 + i], 1 + i % 3, SamplingParams(max_tokens=4, seed=i)) for i in range(16)]
    scores = [sampler.score(PROMPT[: 3 + i]) for i in range(16)]
    sampled, scored = await asyncio.gather(asyncio.gather(*samples), asyncio.gather(*scores))
    assert [len(found) for found in sampled] == [1 + i % 3 for i in range(16)]
    assert [len(found) for found in scored] == [3 + i for i in range(16)]
    await policy.aclose()


async def an_unknown_checkpoint_is_one_clear_line(subject: Subject) -> None:
    policy = await subject.open_policy(None)
    saved = await policy.save("conformance-known")
    with pytest.raises(AgenticRLError) as state:
        await subject.open_policy(saved.state.replace("known", "unknown"))
    assert "unknown" in str(state.value)
    assert "\n" not in str(state.value)
    with pytest.raises(AgenticRLError):
        await subject.open_sampler(saved.sampler.replace("known", "unknown"))
    await policy.aclose()


async def same_update_as(subject: Subject, reference: Subject, reduction: LossReduction) -> None:
    """Same datums, same reduction: the same gradient norm and the same weights afterwards, to rounding."""
    loss = LossConfig(reduction=reduction)
    scores, norms = [], []
    for one in (subject, reference):
        policy = await one.open_policy(None)
        norms.append((await policy.update(datums(), loss, ADAM))["optimizer/grad_norm"])
        scores.append(await (await policy.snapshot()).score(PROMPT))
        await policy.aclose()
    np.testing.assert_allclose(norms[0], norms[1], rtol=1e-4)
    np.testing.assert_allclose(scores[0], scores[1], atol=TOLERANCE)


async def same_samples_as(subject: Subject, reference: Subject) -> None:
    """Same seed: the same tokens."""
    found = []
    for one in (subject, reference):
        policy = await one.open_policy(None)
        sampler = await policy.snapshot()
        found.append(tokens_of(await sampler.sample(PROMPT, 4, SamplingParams(max_tokens=16, seed=11))))
        await policy.aclose()
    assert found[0] == found[1]


CHECKS = (
    gives_n_completions_with_their_logprobs,
    logprobs_are_the_models_own_at_any_temperature,
    scores_have_a_zero_first_and_one_entry_a_token,
    a_seed_settles_a_sample_whatever_else_is_in_flight,
    temperature_zero_is_greedy,
    a_stop_token_ends_a_completion,
    a_snapshot_stays_as_it_was,
    an_update_makes_praised_tokens_likelier,
    a_saved_state_goes_on_like_the_run_that_saved_it,
    saved_sampler_weights_sample_like_the_snapshot,
    a_run_that_goes_on_leaves_what_was_saved_as_it_was,
    many_calls_at_once_all_come_back,
    an_unknown_checkpoint_is_one_clear_line,
)
REDUCTIONS: tuple[LossReduction, ...] = ("token_mean", "sequence_mean", "sum")


def datum(tokens: Sequence[int], logprobs: Sequence[float], *, advantage: float, sampled: range) -> Datum:
    """A trajectory whose `sampled` positions carry one advantage; `logprobs` as `Sampler.score` gives them."""
    mask = np.zeros(len(tokens), dtype=bool)
    mask[list(sampled)] = True
    mask = mask[1:]
    return Datum(
        tokens=np.array(tokens[:-1], dtype=np.int64),
        targets=np.array(tokens[1:], dtype=np.int64),
        old_logprobs=np.where(mask, np.asarray(logprobs, dtype=np.float64)[1:], 0.0),
        advantages=np.where(mask, advantage, 0.0),
        sampled=mask,
    )


def datums(seed: int = 0) -> list[Datum]:
    """Seven trajectories of unequal lengths with advantages of both signs and ratios on both sides of the clip."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(7):
        length = int(random.integers(12, 40))
        tokens = random.integers(2, 250, length).tolist()
        start = int(random.integers(3, length - 4))
        made.append(
            datum(
                tokens, random.normal(-5.0, 0.5, length), advantage=float(random.normal()), sampled=range(start, length)
            )
        )
    return made


def tokens_of(completions: Sequence[Completion]) -> tuple[tuple[int, ...], ...]:
    return tuple(completion.tokens for completion in completions)
