"""Sampling through the real SDK."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import served

from agentic_rl.serving import sampling

PROMPT = [40, 41, 42, 43]


@pytest.fixture(scope="module")
def sampler(service: Any) -> Any:
    return service.create_sampling_client(served.MODEL)


def sample(trio: Any, sampler: Any, *, n: int = 1, prompt: list[int] = PROMPT, **params: Any) -> Any:
    options = {"return_text": params.pop("return_text", True)}
    for name in ("include_prompt_logprobs", "topk_prompt_logprobs"):
        options[name] = params.pop(name, 0)
    given = trio.SamplingParams(**({"max_tokens": 8, "seed": 1} | params))
    return sampler.sample(trio.ModelInput.from_ints(prompt), n, given, **options).result(60)


def test_the_same_seed_gives_the_same_samples_and_each_of_a_group_its_own(trio: Any, sampler: Any) -> None:
    first, again = (sample(trio, sampler, n=3, temperature=2.0) for _ in range(2))
    other = sample(trio, sampler, n=3, temperature=2.0, seed=2)
    tokens = [[s.tokens for s in answer.sequences] for answer in (first, again, other)]
    assert tokens[0] == tokens[1]
    assert tokens[0] != tokens[2]
    assert len({tuple(t) for t in tokens[0]}) == 3


def test_temperature_zero_and_top_k_one_are_both_greedy(trio: Any, sampler: Any) -> None:
    greedy, top = sample(trio, sampler, temperature=0.0), sample(trio, sampler, top_k=1, seed=9)
    assert greedy.sequences[0].tokens == top.sequences[0].tokens
    top_p = sample(trio, sampler, top_p=1e-6, seed=5)
    assert greedy.sequences[0].tokens == top_p.sequences[0].tokens


def test_logprobs_are_those_of_the_untempered_model(trio: Any, sampler: Any) -> None:
    answer = sample(trio, sampler, temperature=1.7, top_p=0.9).sequences[0]
    scores = sampler.compute_logprobs(trio.ModelInput.from_ints(PROMPT + answer.tokens)).result(60)
    assert scores[0] is None
    assert scores[len(PROMPT) :] == pytest.approx(answer.logprobs, abs=1e-4)


def test_prompt_logprobs_come_with_the_likeliest_tokens(trio: Any, sampler: Any) -> None:
    answer = sample(trio, sampler, include_prompt_logprobs=True, topk_prompt_logprobs=3)
    assert len(answer.prompt_logprobs) == len(answer.topk_prompt_logprobs) == len(PROMPT)
    assert answer.prompt_logprobs[0] is answer.topk_prompt_logprobs[0] is None
    for token, logprob, top in zip(
        PROMPT[1:], answer.prompt_logprobs[1:], answer.topk_prompt_logprobs[1:], strict=True
    ):
        values = [value for _, value in top]
        assert values == sorted(values, reverse=True)
        assert logprob <= values[0] + 1e-5
        assert dict(top).get(token, logprob) == pytest.approx(logprob, abs=1e-4)
    assert (answer.input_tokens, answer.output_tokens) == (len(PROMPT), len(answer.sequences[0].tokens))


def test_a_stop_token_is_part_of_the_tokens_and_not_of_the_text(trio: Any, sampler: Any) -> None:
    free = sample(trio, sampler, temperature=3.0).sequences[0]
    place = next(i for i, token in enumerate(free.tokens) if token not in free.tokens[:i] and i > 0)
    stopped = sample(trio, sampler, temperature=3.0, stop=[free.tokens[place]]).sequences[0]
    assert stopped.tokens == free.tokens[: place + 1]
    assert len(stopped.logprobs) == len(stopped.tokens)
    assert stopped.stop_reason == "stop"
    assert stopped.text == sampler.get_tokenizer().decode(free.tokens[:place], skip_special_tokens=True)


def test_a_stop_string_ends_the_text_before_it(trio: Any, sampler: Any) -> None:
    free = sample(trio, sampler, max_tokens=40, temperature=3.0).sequences[0]
    text = sampler.get_tokenizer().decode(free.tokens, skip_special_tokens=False)
    stop = text[5:8]
    stopped = sample(trio, sampler, max_tokens=40, temperature=3.0, stop=stop).sequences[0]
    assert stopped.stop_reason == "stop"
    assert stopped.text == text[: text.index(stop)]
    assert stopped.tokens == free.tokens[: len(stopped.tokens)]
    assert stop in sampler.get_tokenizer().decode(stopped.tokens, skip_special_tokens=False)


def test_a_length_that_does_not_fit_is_refused_once_and_for_all(
    trio: Any, sampler: Any, server: served.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    parse = server.context.sampling.parse
    monkeypatch.setattr(server.context.sampling, "parse", lambda body: asked.append(body) or parse(body))
    with pytest.raises(trio.PyTrioError) as refused:
        sample(trio, sampler, max_tokens=server.context.context_length)
    assert refused.value.code == "context_length_exceeded"
    assert len(asked) == 1, "a permanent refusal must not be retried"


def test_a_training_clients_snapshot_serves_exactly_its_weights(trio: Any, service: Any) -> None:
    client = service.create_lora_training_client(served.MODEL, rank=8, seed=1)
    known = trio.ModelInput.from_ints(PROMPT[:-1])
    data = [trio.Datum(model_input=known, loss_fn_inputs={"target_tokens": PROMPT[1:]})]
    before = client.save_weights_and_get_sampling_client()
    client.forward_backward(data)
    client.optim_step(trio.AdamParams(learning_rate=1e-2)).result(60)
    after = client.save_weights_and_get_sampling_client()
    prompt = trio.ModelInput.from_ints(PROMPT)
    trained = client.forward(data).result(60).loss_fn_outputs[0]["logprobs"].data
    assert after.compute_logprobs(prompt).result(60)[1:] == pytest.approx(list(trained), abs=1e-4)
    assert np.abs(np.array(before.compute_logprobs(prompt).result(60)[1:]) - np.array(trained)).max() > 1e-3


def test_concurrent_requests_are_batched(
    trio: Any, sampler: Any, server: served.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen requests share the engine's steps: far fewer steps than tokens."""
    monkeypatch.setattr(sampling, "SETTLED_SECONDS", 600.0)  # the engine that is looked at stays
    sample(trio, sampler)
    engine = server.context.sampling._loaded[""].sampler.result()._sampler
    before = engine.stats.steps

    async def all_at_once() -> list[Any]:
        params = [trio.SamplingParams(max_tokens=32, seed=i, stop=[0]) for i in range(16)]
        prompt = trio.ModelInput.from_ints(PROMPT)
        return await asyncio.gather(*(sampler.sample_async(prompt, 1, p) for p in params))

    answers = asyncio.run(all_at_once())
    tokens = sum(len(answer.sequences[0].tokens) for answer in answers)
    assert tokens > 200
    assert engine.stats.steps - before < tokens / 3
