"""Training through the real SDK: the losses, the order of events, what a failure leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import served

TOKENS = [40, 41, 42, 43, 44, 45, 46]


def client_of(service: Any, **options: Any) -> Any:
    return service.create_lora_training_client(served.MODEL, **({"rank": 8, "seed": 1} | options))


def datum(trio: Any, tokens: list[int] = TOKENS, **inputs: Any) -> Any:
    return trio.Datum(
        model_input=trio.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs={"target_tokens": tokens[1:], **inputs}
    )


def logprobs(output: Any, i: int = 0) -> np.ndarray:
    return np.asarray(output.loss_fn_outputs[i]["logprobs"].data)


def forward(client: Any, data: list[Any], loss: str = "cross_entropy", config: Any = None) -> Any:
    return client.forward(data, loss, config).result(60)


def test_cross_entropy_is_the_weighted_sum_of_negative_logprobs(service: Any, trio: Any) -> None:
    weights = [0.0, 1.0, -2.0, 0.5, 0.0, 3.0]
    output = forward(client_of(service), [datum(trio, weights=weights)])
    assert output.metrics["loss_sum"] == pytest.approx(-float(np.dot(weights, logprobs(output))), rel=1e-5)
    assert output.metrics["token_count"] == 4, "positions with weight 0 do not enter the loss"


@pytest.mark.parametrize("loss", ["importance_sampling", "ppo", "cispo", "dro"])
def test_policy_losses_are_sums_of_the_published_formulas(service: Any, trio: Any, loss: str) -> None:
    client = client_of(service)
    now = logprobs(forward(client, [datum(trio)]))
    old = now + np.array([0.0, 0.5, -0.5, 0.1, -0.1, 0.0])
    advantages = np.array([1.0, -1.0, 1.0, -0.5, 2.0, 0.0])
    output = forward(client, [datum(trio, logprobs=old.tolist(), advantages=advantages.tolist())], loss)
    ratio = np.exp(now - old)
    clipped = ratio.clip(0.8, 1.2)
    expected = {
        "importance_sampling": -ratio * advantages,
        "ppo": -np.minimum(ratio * advantages, clipped * advantages),
        "cispo": -clipped * now * advantages,
        "dro": -(now * advantages - 0.05 / 2 * (now - old) ** 2),
    }[loss]
    assert output.metrics["loss_sum"] == pytest.approx(float(expected.sum()), rel=1e-4)
    assert logprobs(output) == pytest.approx(now, abs=1e-6)


def test_ignored_targets_have_no_loss_and_logprob_zero(service: Any, trio: Any) -> None:
    tokens = TOKENS[:-1]
    targets = [-100, *TOKENS[2:5], -100, TOKENS[6]]
    sent = trio.Datum(model_input=trio.ModelInput.from_ints(tokens), loss_fn_inputs={"target_tokens": targets})
    output = forward(client_of(service), [sent])
    assert logprobs(output)[0] == logprobs(output)[4] == 0.0
    assert output.metrics["token_count"] == 4


def test_auto_shift_places_logprobs_one_later(service: Any, trio: Any) -> None:
    client = client_of(service)
    shifted = logprobs(forward(client, [datum(trio)]))
    whole = trio.Datum(model_input=trio.ModelInput.from_ints(TOKENS), loss_fn_inputs={"target_tokens": TOKENS})
    output = client.forward([whole], "cross_entropy", None, auto_shift=True).result(60)
    assert logprobs(output)[0] == 0.0
    assert logprobs(output)[1:] == pytest.approx(shifted, abs=1e-6)


def test_steps_lower_the_loss_and_events_may_be_pipelined(service: Any, trio: Any) -> None:
    client = client_of(service)
    adam = trio.AdamParams(learning_rate=3e-3)
    futures = [(client.forward_backward([datum(trio)]), client.optim_step(adam)) for _ in range(6)]
    losses = [backward.result(60).metrics["loss_sum"] for backward, _ in futures]
    steps = [step.result(60).metrics for _, step in futures]
    assert losses[-1] < 0.8 * losses[0]
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5, 6]
    assert all(step["grad_norm"] > 0 for step in steps)


def test_forward_leaves_no_gradient(service: Any, trio: Any) -> None:
    client = client_of(service)
    before = logprobs(forward(client, [datum(trio)]))
    assert client.optim_step(trio.AdamParams(learning_rate=1e-2)).result(60).metrics["grad_norm"] == 0.0
    assert logprobs(forward(client, [datum(trio)])) == pytest.approx(before, abs=1e-6)


def test_a_failed_event_leaves_no_gradient_and_the_run_goes_on(service: Any, trio: Any) -> None:
    client, untouched = client_of(service), client_of(service)
    bad = datum(trio, logprobs=[0.0] * 6, advantages=[1.0] * 6)
    with pytest.raises(trio.PyTrioError) as refused:
        client.forward_backward([bad], "ppo", {"clip_low_threshold": 2.0, "clip_high_threshold": 1.0}).result(60)
    assert refused.value.code == "invalid_loss_config"
    overflow = datum(trio, logprobs=[-1e30] * 6, advantages=[1.0] * 6)
    with pytest.raises(trio.PyTrioError):
        client.forward_backward(
            [datum(trio, [50, 51, 52], logprobs=[0, 0], advantages=[1.0, 1.0]), overflow], "importance_sampling"
        ).result(60)
    for each in (client, untouched):
        each.forward_backward([datum(trio)]).result(60)
        each.optim_step(trio.AdamParams(learning_rate=1e-3)).result(60)
    assert logprobs(forward(client, [datum(trio)])) == pytest.approx(
        logprobs(forward(untouched, [datum(trio)])), abs=1e-7
    )


def test_gradients_add_up_until_the_step(service: Any, trio: Any) -> None:
    together, apart = client_of(service), client_of(service)
    first, second = datum(trio), datum(trio, [60, 61, 62, 63])
    together.forward_backward([first, second]).result(60)
    apart.forward_backward([first]).result(60)
    apart.forward_backward([second]).result(60)
    norms = [
        c.optim_step(trio.AdamParams(learning_rate=1e-3)).result(60).metrics["grad_norm"] for c in (together, apart)
    ]
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


def test_a_custom_loss_gives_the_gradient_of_the_loss_it_states(service: Any, trio: Any) -> None:
    direct, custom = client_of(service), client_of(service)
    weights = [1.0, 0.5, 0.0, 2.0, 1.0, 1.0]
    direct.forward_backward([datum(trio, weights=weights)]).result(60)

    def stated(data: Any, logps: Any) -> Any:
        import torch

        loss = -(torch.tensor(weights) * logps[0]).sum()
        return loss, {"mine": float(loss.detach())}

    output = custom.forward_backward_custom([datum(trio)], stated).result(60)
    assert output.metrics["mine"] > 0
    norms = [
        c.optim_step(trio.AdamParams(learning_rate=1e-3)).result(60).metrics["grad_norm"] for c in (direct, custom)
    ]
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


def test_unknown_models_and_settings_are_refused_by_name(service: Any, trio: Any) -> None:
    with pytest.raises(trio.PyTrioError) as unknown:
        service.create_lora_training_client("Nobody/Nothing")
    assert unknown.value.code == "model_not_found"
    assert served.MODEL in unknown.value.message
    client = client_of(service)
    with pytest.raises(trio.PyTrioError) as config:
        client.forward_backward(
            [datum(trio, logprobs=[0.0] * 6, advantages=[1.0] * 6)], "ppo", {"epsilon": 0.2}
        ).result(60)
    assert "epsilon" in config.value.message


def test_train_flags_choose_the_layers(service: Any, trio: Any) -> None:
    """The fewer layers are trained, the less there is to save."""
    sizes = []
    for flags in ({}, {"train_unembed": False}, {"train_unembed": False, "train_mlp": False}):
        client = client_of(service, **flags)
        sizes.append(client.save_weights_for_sampler("sized").result(60).size)
    assert sizes[0] > sizes[1] > sizes[2] > 0
