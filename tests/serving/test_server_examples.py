"""Two scripts as a stranger would write them, with the public `pytrio` API alone."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import served


def test_supervised_fine_tuning_lowers_the_loss(trio: Any, service: Any) -> None:
    """Teach one answer: loss on the answer's tokens only, one optimizer step a pass."""
    client = service.create_lora_training_client(base_model=served.MODEL, rank=16, seed=0)
    tokenizer = client.get_tokenizer()
    question = tokenizer.encode("put a mug on the desk", add_special_tokens=False)
    answer = tokenizer.encode("take mug 1 from shelf 2", add_special_tokens=False)
    tokens = question + answer
    example = trio.Datum(
        model_input=trio.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": tokens[1:],
            "weights": [0.0] * (len(question) - 1) + [1.0] * len(answer),
        },
    )
    means = []
    for _ in range(8):
        backward = client.forward_backward([example], "cross_entropy")
        step = client.optim_step(trio.AdamParams(learning_rate=5e-3))
        means.append(backward.result(60).metrics["loss_mean"])
        step.result(60)
    assert means[-1] < 0.5 * means[0], means


def test_reinforcement_learning_from_rollouts_raises_the_reward(trio: Any, service: Any) -> None:
    """Reward a completion for a token that it holds; group-relative advantages, PPO, a new snapshot each step."""
    client = service.create_lora_training_client(base_model=served.MODEL, rank=16, seed=0)
    prompt = [40, 41, 42]
    params = trio.SamplingParams(max_tokens=6, temperature=1.0, stop=[0])

    async def step(number: int) -> float:
        sampler = await client.save_weights_and_get_sampling_client_async()
        given = params.model_copy(update={"seed": number})
        answer = await sampler.sample_async(trio.ModelInput.from_ints(prompt), 24, given)
        rewards = np.array([np.mean([token % 2 for token in s.tokens]) for s in answer.sequences])
        data = []
        for sequence, advantage in zip(answer.sequences, rewards - rewards.mean(), strict=True):
            tokens = prompt + sequence.tokens
            ignored = len(prompt) - 1
            inputs = {
                "target_tokens": tokens[1:],
                "logprobs": [0.0] * ignored + sequence.logprobs,
                "advantages": [0.0] * ignored + [float(advantage)] * len(sequence.tokens),
            }
            known = trio.ModelInput.from_ints(tokens[:-1])
            data.append(trio.Datum(model_input=known, loss_fn_inputs=inputs))
        backward = await client.forward_backward_async(data, "ppo")
        update = await client.optim_step_async(trio.AdamParams(learning_rate=5e-3))
        await backward
        assert (await update).metrics["step"] == number
        return float(rewards.mean())

    async def train() -> list[float]:
        return [await step(number) for number in range(1, 17)]

    rewards = asyncio.run(train())
    assert np.mean(rewards[-4:]) > np.mean(rewards[:2]) + 0.3, rewards
