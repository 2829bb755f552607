"""The gradient is the batch's own, however the batch is cut, and a step is Adam's."""

from __future__ import annotations

from pathlib import Path

import conformance
import numpy as np
import pytest
import torch
from tiny_models import build

from agentic_rl.errors import BackendError, ConfigError
from agentic_rl.policy.local import losses
from agentic_rl.policy.local.loading import BaseModel, load_base_model
from agentic_rl.policy.local.lora import LoraSpec, adapter_digest, adapter_weights, attach_lora, frozen_copy
from agentic_rl.policy.local.policy import examples_of
from agentic_rl.policy.local.trainer import Example, Trainer
from agentic_rl.policy.protocol import AdamConfig, LossConfig

PPO = losses.ppo(0.8, 1.2)
SPEC = LoraSpec(rank=4, seed=0)


@pytest.fixture(scope="module")
def base(tiny_model: Path) -> BaseModel:
    return load_base_model(str(tiny_model), device="cpu")


@pytest.fixture(scope="module")
def exact(tiny_model: Path) -> BaseModel:
    """The same in float64, where rounding hides nothing."""
    loaded = load_base_model(str(tiny_model), device="cpu")
    loaded.model.double()
    return loaded


def examples(seed: int = 0) -> list[Example]:
    return examples_of(conformance.datums(seed), LossConfig())


def trainer_of(base: BaseModel, **options: object) -> Trainer:
    """A trainer whose adapter has moved off zero, so that both of its factors have a gradient."""
    trainer = Trainer(attach_lora(base.model, SPEC), **options)  # type: ignore[arg-type]
    with torch.no_grad():
        for name, weight in sorted(trainer.parameters.items()):
            if "lora_B" in name:
                weight.copy_(torch.linspace(-0.1, 0.1, weight.numel()).reshape(weight.shape))
    return trainer


def gradient(trainer: Trainer, batch: list[Example]) -> np.ndarray:
    trainer.clear_gradient()
    trainer.forward_backward(batch, PPO)
    return torch.cat([part.reshape(-1) for part in trainer.gradient().values()]).numpy()


@pytest.mark.parametrize("reduction", conformance.REDUCTIONS)
def test_gradient_equals_the_naive_one(exact: BaseModel, reduction: str) -> None:
    trainer = trainer_of(exact)
    datums = conformance.datums()
    loss = LossConfig(clip_low=0.8, clip_high=1.2, reduction=reduction)  # type: ignore[arg-type]
    found = gradient(trainer, examples_of(datums, loss))

    trainer.clear_gradient()
    token_losses = []
    for datum in datums:
        logits = trainer.model(input_ids=torch.from_numpy(datum.tokens)[None]).logits[0]
        logprobs = torch.log_softmax(logits, -1)[torch.arange(len(datum.targets)), torch.from_numpy(datum.targets)]
        ratio = torch.exp(logprobs - torch.from_numpy(datum.old_logprobs))
        advantages = torch.from_numpy(datum.advantages)
        surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        token_losses.append(-surrogate[torch.from_numpy(datum.sampled)])
    total = {
        "sum": torch.cat(token_losses).sum(),
        "token_mean": torch.cat(token_losses).mean(),
        "sequence_mean": torch.stack([part.mean() for part in token_losses]).mean(),
    }[reduction]
    total.backward()
    expected = torch.cat([part.reshape(-1) for part in trainer.gradient().values()]).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-9, rtol=1e-9)


def test_micro_batches_of_one_three_and_all_give_the_same_gradient(exact: BaseModel) -> None:
    gradients = [
        gradient(trainer_of(exact, micro_batch_examples=size, micro_batch_tokens=1 << 20), examples())
        for size in (1, 3, None)
    ]
    assert np.abs(gradients[0]).max() > 1e-3
    np.testing.assert_allclose(gradients[0], gradients[2], atol=1e-9)
    np.testing.assert_allclose(gradients[1], gradients[2], atol=1e-9)


def test_micro_batches_give_the_same_gradient_in_float32(base: BaseModel) -> None:
    gradients = [
        gradient(trainer_of(base, micro_batch_examples=size, micro_batch_tokens=1 << 20), examples())
        for size in (1, 3, None)
    ]
    scale = np.linalg.norm(gradients[2])
    np.testing.assert_allclose(gradients[0] / scale, gradients[2] / scale, atol=1e-6)
    np.testing.assert_allclose(gradients[1] / scale, gradients[2] / scale, atol=1e-6)


def test_activation_checkpointing_does_not_change_the_gradient(exact: BaseModel) -> None:
    plain, thrifty = trainer_of(exact), trainer_of(exact, checkpoint_activations=True)
    np.testing.assert_allclose(gradient(thrifty, examples()), gradient(plain, examples()), atol=1e-9)
    ids = torch.arange(2, 30)[None]
    with torch.inference_mode():
        expected = frozen_copy(plain.model)(input_ids=ids).logits
        np.testing.assert_allclose(frozen_copy(thrifty.model)(input_ids=ids).logits, expected, atol=1e-9)


def test_gradients_gather_over_calls(exact: BaseModel) -> None:
    trainer = trainer_of(exact)
    batch = examples()
    whole = gradient(trainer, batch)
    trainer.clear_gradient()
    trainer.forward_backward(batch[:3], PPO)
    trainer.forward_backward(batch[3:], PPO)
    parts = torch.cat([part.reshape(-1) for part in trainer.gradient().values()]).numpy()
    np.testing.assert_allclose(parts, whole, atol=1e-9)


def test_a_failed_call_leaves_the_gathered_gradient_alone(base: BaseModel) -> None:
    trainer = trainer_of(base, micro_batch_examples=1)
    batch = examples()
    before = gradient(trainer, batch[:3])
    poisoned = Example(
        tokens=batch[3].tokens,
        targets=batch[3].targets,
        old_logprobs=np.full_like(batch[3].old_logprobs, np.nan),
        advantages=batch[3].advantages,
        weights=batch[3].weights,
        wanted=batch[3].wanted,
    )
    with pytest.raises(BackendError, match="nan"):
        trainer.forward_backward([batch[4], poisoned], PPO)
    after = torch.cat([part.reshape(-1) for part in trainer.gradient().values()]).numpy()
    np.testing.assert_array_equal(after, before)


def test_forward_leaves_no_gradient_and_gives_the_snapshots_logprobs(base: BaseModel) -> None:
    trainer = trainer_of(base)
    batch = examples()
    outcome = trainer.forward(batch, PPO)
    assert not trainer.gradient()
    frozen = frozen_copy(trainer.model)
    for example, found in zip(batch, outcome.logprobs, strict=True):
        with torch.inference_mode():
            logits = frozen(input_ids=torch.from_numpy(example.tokens)[None]).logits[0]
        expected = torch.log_softmax(logits, -1)[torch.arange(len(example.targets)), torch.from_numpy(example.targets)]
        np.testing.assert_allclose(found, expected.numpy()[example.wanted], atol=1e-5)


def test_a_step_is_adams_and_clips_the_norm(base: BaseModel) -> None:
    trainer = trainer_of(base)
    adam = AdamConfig(learning_rate=0.1, grad_clip_norm=0.01)
    gathered = gradient(trainer, examples())
    before = torch.cat([weight.detach().reshape(-1) for weight in trainer.parameters.values()]).numpy()
    metrics = trainer.step(adam)
    after = torch.cat([weight.detach().reshape(-1) for weight in trainer.parameters.values()]).numpy()
    norm = float(np.linalg.norm(gathered))
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-5)
    assert norm > 0.01
    # Adam's first step with bias correction: g / (|g| + eps), of the clipped gradient
    clipped = gathered * 0.01 / norm
    np.testing.assert_allclose(after - before, -0.1 * clipped / (np.abs(clipped) + 1e-12), atol=2e-4)
    assert not trainer.gradient()


def test_the_base_is_never_touched(base: BaseModel) -> None:
    fingerprint = {name: weight.clone() for name, weight in base.model.named_parameters()}
    trainer = trainer_of(base)
    gradient(trainer, examples())
    trainer.step(AdamConfig(learning_rate=0.1))
    frozen_copy(trainer.model)
    for name, weight in base.model.named_parameters():
        assert torch.equal(weight, fingerprint[name])
        assert weight.grad is None


def test_adapters_are_drawn_from_their_seed(base: BaseModel) -> None:
    torch.manual_seed(5)
    one = adapter_digest(attach_lora(base.model, LoraSpec(rank=4, seed=1)))
    torch.manual_seed(6)
    state = torch.get_rng_state()
    same = adapter_digest(attach_lora(base.model, LoraSpec(rank=4, seed=1)))
    other = adapter_digest(attach_lora(base.model, LoraSpec(rank=4, seed=2)))
    assert one == same != other
    assert torch.equal(torch.get_rng_state(), state)


def test_which_layers_learn(base: BaseModel) -> None:
    def layers(**flags: bool) -> set[str]:
        names = adapter_weights(attach_lora(base.model, LoraSpec(rank=4, **flags)))
        return {name.split(".lora_")[0].rsplit(".", 1)[-1] for name in names}

    attention, mlp = {"q_proj", "k_proj", "v_proj", "o_proj"}, {"gate_proj", "up_proj", "down_proj"}
    assert layers() == attention | mlp
    assert layers(train_mlp=False) == attention
    assert layers(train_attn=False, train_unembed=True) == mlp | {"lm_head"}
    with pytest.raises(ConfigError):
        layers(train_attn=False, train_mlp=False)


def test_training_a_tied_head_leaves_the_input_embedding(base: BaseModel) -> None:
    trainer = Trainer(attach_lora(base.model, LoraSpec(rank=4, train_attn=False, train_mlp=False, train_unembed=True)))
    trainer.forward_backward(examples(), PPO)
    trainer.step(AdamConfig(learning_rate=0.1))
    frozen = frozen_copy(trainer.model)
    assert torch.equal(frozen.get_input_embeddings().weight, base.model.get_input_embeddings().weight)
    assert not torch.equal(frozen.get_output_embeddings().weight, base.model.get_output_embeddings().weight)
    ids = torch.arange(2, 20)[None]
    with torch.inference_mode():
        np.testing.assert_allclose(frozen(input_ids=ids).logits, trainer.model(input_ids=ids).logits, atol=1e-4)


def test_a_shorter_type_keeps_the_adapter_beside_the_weights(tmp_path: Path) -> None:
    half = load_base_model(str(build(tmp_path / "half")), device="cpu").model.to(torch.bfloat16)
    trainer = Trainer(attach_lora(half, SPEC))
    trainer.forward_backward(examples(), PPO)
    trainer.step(AdamConfig(learning_rate=1e-4))
    frozen = frozen_copy(trainer.model)
    assert {weight.dtype for weight in trainer.parameters.values()} == {torch.float32}
    ids = torch.arange(2, 60)[None]
    with torch.inference_mode():
        changed = frozen(input_ids=ids).logits
        assert torch.equal(changed, trainer.model(input_ids=ids).logits)
        assert not torch.equal(changed, half(input_ids=ids).logits), "a small update survives"
    trainer.forward_backward(examples(), PPO)
    trainer.step(AdamConfig(learning_rate=1e-2))
    with torch.inference_mode():
        assert torch.equal(frozen(input_ids=ids).logits, changed), "and later ones do not reach the copy"
