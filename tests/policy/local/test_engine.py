"""The engine reads every token once, and what it samples never depends on company."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import build

from agentic_rl.errors import BackendError
from agentic_rl.policy.local import LocalSampler, open_local_sampler
from agentic_rl.policy.local.cache_size import cache_bytes
from agentic_rl.policy.local.choose import Choice
from agentic_rl.policy.local.decoder import Work
from agentic_rl.policy.local.engine import Request
from agentic_rl.policy.local.loading import load_base_model
from agentic_rl.policy.local.lora import share_weights
from agentic_rl.policy.local.probe import choose_decoder
from agentic_rl.policy.local.ragged import RaggedDecoder
from agentic_rl.policy.local.sequential import SequentialDecoder
from agentic_rl.policy.local.slot_pool import SlotPool
from agentic_rl.policy.local.stacked import StackedDecoder
from agentic_rl.policy.local.studio import Studio
from agentic_rl.policy.protocol import FinishReason, SamplingParams

PROMPT = [2 + 5 * i % 250 for i in range(60)]


def with_sampler(tiny_model: Path, play: Callable[[LocalSampler], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    async def run() -> Any:
        sampler = open_local_sampler(str(tiny_model), device="cpu", **options)
        try:
            return await play(sampler)
        finally:
            await sampler.aclose()

    return asyncio.run(run())


async def dialogue(sampler: LocalSampler, name: int, turns: int) -> tuple[list[int], list[float], list[int]]:
    """A trajectory: sampled turns between observations of 10 to 40 tokens; also the tokens read at each turn."""
    observations = np.random.default_rng(name)
    tokens = list(PROMPT)
    logprobs: list[float] = []
    read = []
    for turn in range(turns):
        answer = await sampler.ask(Request(tuple(tokens), 1, max_tokens=4 + (name + turn) % 5, seed=100 * name + turn))
        (completion,) = answer.completions
        tokens += completion.tokens
        logprobs += completion.logprobs
        read.append(answer.read_tokens)
        tokens += observations.integers(2, 250, int(observations.integers(10, 40))).tolist()
        await asyncio.sleep(0)
    return tokens, logprobs, read


def test_a_turn_reads_its_new_tokens_only(tiny_model: Path) -> None:
    async def play(sampler: LocalSampler) -> None:
        _, _, read = await dialogue(sampler, 1, turns=30)
        assert read[0] == len(PROMPT)
        assert max(read[1:]) <= 40  # an observation and the last sampled token, however long the history
        assert sampler.stats.reused_tokens > 10 * sampler.stats.read_tokens

    with_sampler(tiny_model, play)


def test_completions_of_one_prompt_share_one_reading(tiny_model: Path) -> None:
    async def play(sampler: LocalSampler) -> None:
        answer = await sampler.ask(Request(tuple(PROMPT), 8, max_tokens=5, seed=1))
        assert answer.read_tokens == sampler.stats.read_tokens == len(PROMPT)
        assert sampler.stats.sampled_tokens == 8 * 5
        nexts = [
            sampler.ask(Request((*PROMPT, *completion.tokens, 7, 8, 9), 1, max_tokens=2, seed=2))
            for completion in answer.completions
        ]
        assert [next_answer.read_tokens for next_answer in await asyncio.gather(*nexts)] == [4] * 8

    with_sampler(tiny_model, play)


@pytest.mark.parametrize("family", ["qwen3", "gemma3", "qwen3_5"])
def test_trajectories_do_not_depend_on_concurrency(family: str, tmp_path: Path) -> None:
    model = build(tmp_path / family, family)

    async def one_by_one(sampler: LocalSampler) -> list[Any]:
        return [await dialogue(sampler, name, turns=4) for name in range(4)]

    async def together(sampler: LocalSampler) -> list[Any]:
        company = [dialogue(sampler, name, turns=4) for name in range(20, 28)]
        return (await asyncio.gather(*(dialogue(sampler, name, turns=4) for name in range(4)), *company))[:4]

    alone = with_sampler(model, one_by_one)
    crowded = with_sampler(model, together)
    assert [tokens for tokens, _, _ in crowded] == [tokens for tokens, _, _ in alone]
    assert [logprobs for _, logprobs, _ in crowded] == [logprobs for _, logprobs, _ in alone], "bit for bit"


@pytest.mark.parametrize("family", ["qwen3", "llama", "gemma3", "gemma2", "qwen3_5"])
def test_sampling_and_scoring_agree_in_every_family(family: str, tmp_path: Path) -> None:
    async def play(sampler: LocalSampler) -> None:
        tokens = list(PROMPT)
        for turn in range(3):  # past the sliding window of the Gemmas, and on from a slot
            completions = await sampler.sample(tokens, 2, SamplingParams(max_tokens=8, seed=turn))
            for completion in completions:
                scores = await sampler.score([*tokens, *completion.tokens])
                # The recurrent layers of Qwen3.5 have two formulas, one by chunks and one by steps.
                tolerance = 1e-4 if family == "qwen3_5" else 1e-5
                np.testing.assert_allclose(scores[len(tokens) :], completion.logprobs, atol=tolerance)
            tokens += [*completions[1].tokens, 3, 4, 5]

    with_sampler(build(tmp_path / family, family), play)


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("qwen3", RaggedDecoder),
        ("llama", RaggedDecoder),
        ("gemma3", RaggedDecoder),
        ("qwen3_5", StackedDecoder),  # recurrent layers
        ("gemma2", SequentialDecoder),  # soft caps inside of attention
    ],
)
def test_every_family_gets_the_fastest_decoder_that_is_right(family: str, kind: type, tmp_path: Path) -> None:
    base = load_base_model(str(build(tmp_path / family, family)), device="cpu").model
    chosen = choose_decoder(base)(share_weights(base), SlotPool(1 << 30))
    assert type(chosen) is kind
    general = SequentialDecoder(share_weights(base), SlotPool(1 << 30))
    random = np.random.default_rng(0)
    texts = {slot: random.integers(2, 250, 70 + slot).tolist() for slot in (0, 1, 4)}
    for first, last in ((0, 40), (40, 41), (41, 60), (60, 61), (61, 62)):
        works = [Work(slot, first, text[first:last], every_row=slot == 1) for slot, text in texts.items()]
        np.testing.assert_allclose(chosen.forward(works), general.forward(works), atol=2e-3 if "5" in family else 1e-4)
    for decoder in (chosen, general):
        decoder.fork(4, [2, 3], 62)
        decoder.keep([3, 1])
    works = [Work(0, 62, texts[4][62:63]), Work(1, 62, texts[1][62:64])]
    np.testing.assert_allclose(chosen.forward(works), general.forward(works), atol=2e-3 if "5" in family else 1e-4)


def test_attention_by_blocks_of_slots_gives_the_same_numbers(tiny_model: Path) -> None:
    """The way CUDA decodes, tried on the CPU."""
    base = load_base_model(str(tiny_model), device="cpu").model
    decoders = [RaggedDecoder(share_weights(base), SlotPool(1 << 30), by_block=by_block) for by_block in (True, False)]
    random = np.random.default_rng(0)
    lengths = {slot: int(random.integers(5, 300)) for slot in (0, 1, 5, 31, 32, 40)}
    texts = {slot: random.integers(2, 250, length + 3).tolist() for slot, length in lengths.items()}
    for first, last in ((None, -3), (-3, -2), (-2, -1)):
        works = [Work(slot, (first or -len(text)) + len(text), text[first:last]) for slot, text in texts.items()]
        blocks, rows = (decoder.forward(works) for decoder in decoders)
        np.testing.assert_allclose(blocks, rows, atol=1e-4)


@pytest.mark.parametrize("family", ["qwen3", "qwen3_5", "gemma2"])
def test_as_many_sequences_as_the_decoder_promises_fit_the_memory(family: str, tmp_path: Path) -> None:
    base = load_base_model(str(build(tmp_path / family, family)), device="cpu").model
    decoder = choose_decoder(base)(share_weights(base), SlotPool(1 << 20))
    decoder.forward([Work(0, 0, [1] * 250)])
    count = decoder.capacity(250)
    assert count > 2
    for slot in range(count):
        decoder.forward([Work(slot, 0, [1] * 250)])
    assert (1 << 19) < remembered(decoder) <= 1 << 20
    assert decoder.capacity(2000) < count


def remembered(decoder: Any) -> int:
    """Bytes of everything a decoder keeps, counted tensor by tensor."""
    slots, states = getattr(decoder, "_slots", None), getattr(decoder, "_states", getattr(decoder, "_caches", {}))
    keys_and_values = [*slots.keys.values(), *slots.values.values()] if slots else []
    return sum(tensor.nbytes for tensor in keys_and_values) + sum(map(cache_bytes, states.values()))


def test_little_memory_costs_time_and_nothing_else(tiny_model: Path) -> None:
    async def together(sampler: LocalSampler) -> tuple[list[Any], Any]:
        group = sampler.sample(PROMPT, 6, SamplingParams(max_tokens=5, seed=8))
        return await asyncio.gather(*(dialogue(sampler, name, turns=11) for name in range(4))), await group

    roomy, roomy_group = with_sampler(tiny_model, together)
    # 2 layers x 2 heads x 16 numbers x (key + value) x 4 bytes a token: four slots of 256 tokens, or two of 512,
    # so that slots are given up while the dialogues grow
    cramped, cramped_group = with_sampler(tiny_model, together, cache_bytes=4 * 256 * 2 * 2 * 16 * 2 * 4)
    assert max(len(tokens) for tokens, _, _ in roomy) > 300
    assert [tokens for tokens, _, _ in cramped] == [tokens for tokens, _, _ in roomy]
    assert [found.tokens for found in cramped_group] == [found.tokens for found in roomy_group]
    assert sum(map(sum, (read for _, _, read in cramped))) > sum(map(sum, (read for _, _, read in roomy)))


def test_slots_are_made_in_store_but_not_beyond_the_memory(tiny_model: Path) -> None:
    base = load_base_model(str(tiny_model), device="cpu").model
    six = 6 * 256 * 2 * 2 * 16 * 2 * 4
    decoder = RaggedDecoder(share_weights(base), SlotPool(six))
    made = []
    for slot in range(decoder.capacity(3)):
        decoder.forward([Work(slot, 0, [5, 6, 7])])
        made.append(
            sum(tensor.nbytes for layers in (decoder._slots.keys, decoder._slots.values) for tensor in layers.values())
        )
    assert made == sorted(made)
    assert len(set(made)) < 6, "some were made in store"
    assert made[-1] == six


def test_samplers_share_the_memory_and_lose_nothing_by_it(tiny_model: Path) -> None:
    """A second sampler begins in the middle of the first one's dialogues, which then have half the room."""
    budget = 16 * 256 * 2 * 2 * 16 * 2 * 4
    base = load_base_model(str(tiny_model), device="cpu")

    async def run() -> tuple[Any, ...]:
        studio = Studio(base, cache_bytes=budget)
        first = await studio.run(studio.base_sampler)
        before = [await dialogue(first, name, turns=2) for name in range(12)]
        alone = taken(first)
        second = await studio.run(studio.base_sampler)
        made_way = taken(first)
        both = await asyncio.gather(
            *(dialogue(sampler, name, turns=4) for sampler in (first, second) for name in range(8))
        )
        shared = taken(first) + taken(second)
        await second.aclose()
        await asyncio.gather(*(dialogue(first, name, turns=4) for name in range(12)))
        again = taken(first)
        await first.aclose()
        studio.close()
        return before, alone, made_way, both, shared, again

    before, alone, made_way, both, shared, again = asyncio.run(run())
    assert budget // 2 < alone <= budget
    assert made_way <= budget // 2
    assert shared <= budget
    assert budget // 2 < again <= budget
    assert [tokens for tokens, _, _ in both[:8]] == [tokens for tokens, _, _ in both[8:]]
    for (short, _, _), (long, _, _) in zip(before[:8], both[:8], strict=True):
        assert long[: len(short)] == short


def taken(sampler: LocalSampler) -> int:
    """Bytes of the slots of a sampler."""
    return remembered(sampler._engine._decoder)


def test_long_sequences_are_scored_in_pieces(tiny_model: Path) -> None:
    tokens = np.random.default_rng(0).integers(2, 250, 1500).tolist()

    async def play(sampler: LocalSampler) -> None:
        whole = await sampler.score(tokens)
        assert whole.shape == (1500,)
        np.testing.assert_allclose((await sampler.score(tokens[:700])), whole[:700], atol=1e-5)

    with_sampler(tiny_model, play)


def test_stop_strings_end_a_completion(tiny_model: Path) -> None:
    async def play(sampler: LocalSampler) -> None:
        free = await sampler.ask(Request(tuple(PROMPT), 1, max_tokens=30, seed=5))
        text = sampler.tokenizer.decode(free.completions[0].tokens)
        stop = text[6:9]
        stopped = await sampler.ask(Request(tuple(PROMPT), 1, max_tokens=30, seed=5, stop_strings=(stop,)))
        (completion,) = stopped.completions
        assert completion.finish_reason is FinishReason.STOP
        found = sampler.tokenizer.decode(completion.tokens)
        assert found == text[: text.index(stop) + len(stop)]

    with_sampler(tiny_model, play)


def test_top_k_one_is_greedy_and_the_context_ends_a_completion(tiny_model: Path) -> None:
    async def play(sampler: LocalSampler) -> None:
        top = await sampler.ask(Request(tuple(PROMPT), 1, max_tokens=6, choice=Choice(top_k=1), seed=1))
        greedy = await sampler.sample(PROMPT, 1, SamplingParams(max_tokens=6, temperature=0.0))
        assert top.completions[0].tokens == greedy[0].tokens
        long = [2 + i % 250 for i in range(2040)]
        (completion,) = await sampler.sample(long, 1, SamplingParams(max_tokens=100, seed=1))
        assert len(completion.tokens) == 8
        assert completion.finish_reason is FinishReason.LENGTH

    with_sampler(tiny_model, play)


def test_requests_that_cannot_be_served_are_refused_and_harm_nobody(tiny_model: Path) -> None:
    async def play(sampler: LocalSampler) -> None:
        good = asyncio.create_task(sampler.sample(PROMPT, 2, SamplingParams(max_tokens=20, seed=1)))
        for prompt in ([], [5] * 2049, [5, 100_000], [5, -1]):
            with pytest.raises(BackendError):
                await sampler.sample(prompt, 1, SamplingParams(max_tokens=5))
        with pytest.raises(BackendError):
            await sampler.sample(PROMPT, 1, SamplingParams(max_tokens=0))
        assert len(await good) == 2

    with_sampler(tiny_model, play)


def test_a_cancelled_request_frees_its_slot(tiny_model: Path) -> None:
    async def play(sampler: LocalSampler) -> None:
        long = asyncio.create_task(sampler.sample(PROMPT, 4, SamplingParams(max_tokens=1900, seed=1)))
        await asyncio.sleep(0.05)
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        await sampler.sample(PROMPT, 1, SamplingParams(max_tokens=3, seed=1))
        steps = sampler.stats.steps
        await asyncio.sleep(0.1)
        assert sampler.stats.steps == steps, "nothing goes on in the background"

    with_sampler(tiny_model, play)


def test_closing_ends_what_is_under_way(tiny_model: Path) -> None:
    async def run() -> None:
        sampler = open_local_sampler(str(tiny_model), device="cpu")
        long = asyncio.create_task(sampler.sample(PROMPT, 1, SamplingParams(max_tokens=1900, seed=1)))
        await asyncio.sleep(0.05)
        await sampler.aclose()
        with pytest.raises(BackendError, match="closed"):
            await long
        with pytest.raises(BackendError, match="closed"):
            await sampler.score(PROMPT)
        await sampler.aclose()

    asyncio.run(run())
