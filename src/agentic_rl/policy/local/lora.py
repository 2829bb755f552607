"""LoRA (Hu et al. 2021) over a shared base: many adapters of one base model in one process.

Every adapter lives in its own tree of modules, whose frozen weights are the base's own tensors. So a second run
costs its adapter and nothing more, and no run can touch another's.

The scale is `ALPHA / rank` with a fixed ALPHA, which keeps the best learning rate nearly independent of the rank.

`train_unembed` puts an adapter on the output head. Where input and output embeddings are tied, only the output side
learns: the adapter's product is added to the logits, the input embedding stays the base's.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from agentic_rl.errors import ConfigError

ALPHA = 32
_ATTENTION_WORDS = ("attn", "attention", "mixer")


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """Which layers get an adapter, of which rank, from which seed."""

    rank: int = 32
    seed: int = 0
    train_attn: bool = True
    train_mlp: bool = True
    train_unembed: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def share_weights(model: nn.Module) -> nn.Module:
    """A new tree of modules over the very same tensors."""
    memo: dict[int, Any] = {id(tensor): tensor for tensor in model.parameters()}
    memo |= {id(tensor): tensor for tensor in model.buffers()}
    return copy.deepcopy(model, memo)


def attach_lora(base: nn.Module, spec: LoraSpec) -> nn.Module:
    """The base with a fresh, trainable adapter in float32; the base itself is left as it was.

    The first product is zero, so the new policy equals the base; `spec.seed` draws the other factor.
    """
    from peft import LoraConfig, get_peft_model

    from agentic_rl.policy.local import dense_lora

    if spec.rank < 1:
        raise ConfigError(f"--lora-rank {spec.rank} is not a rank", hint="Give a number of at least 1.")
    targets = _targets(base, spec)
    if not targets:
        raise ConfigError("no layer is left to train", hint="Train attention, feed-forward or the output head.")
    config = LoraConfig(
        r=spec.rank, lora_alpha=ALPHA, lora_dropout=0.0, bias="none", target_modules=targets, task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft warns of tied heads; the module's docstring says what happens
        torch.manual_seed(spec.seed)
        model: nn.Module = get_peft_model(share_weights(base), config)
    dense_lora.use_where_it_pays(model, spec.rank)
    return model


def adapter_weights(model: nn.Module) -> dict[str, Tensor]:
    """The adapter's tensors by name: what is trained, saved and digested."""
    return {name: weight for name, weight in model.named_parameters() if "lora_" in name}


def adapter_digest(model: nn.Module) -> str:
    """Equal for equal adapters."""
    digest = hashlib.blake2b(digest_size=8)
    for name, weight in adapter_weights(model).items():
        digest.update(name.encode())
        digest.update(weight.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def frozen_copy(model: nn.Module) -> nn.Module:
    """The model as it is now, for sampling, unmoved by later updates.

    In float32 the adapter is merged into copies of the weights it touches: fewer operations a token, and the numbers
    stay within rounding of the trainer's. In a shorter type merging would round small updates away, so the
    copy keeps the base's weights shared and the adapter beside them, exactly as the trainer computes.
    """
    from peft.tuners.lora import LoraLayer

    memo: dict[int, Any] = {id(weight): weight for name, weight in model.named_parameters() if "lora_" not in name}
    memo |= {id(buffer): buffer for buffer in model.buffers()}
    # Gradients are not weights: a snapshot taken between backward and step must not carry them along.
    for weight in adapter_weights(model).values():
        memo[id(weight)] = nn.Parameter(weight.detach().clone(), requires_grad=False)
    frozen = copy.deepcopy(model, memo)
    inner: nn.Module = frozen.get_base_model()  # type: ignore[operator]
    if next(inner.parameters()).dtype in (torch.float32, torch.float64):
        for name, module in list(inner.named_modules()):
            if isinstance(module, LoraLayer):
                _replace(inner, name, _merged(module))
    return inner.eval().requires_grad_(False)


def _merged(layer: Any) -> nn.Module:
    """A plain layer whose weight is a new tensor: base + adapter. Never in place, as the base's tensor is shared."""
    base = layer.get_base_layer()
    weight = base.weight.detach()
    with torch.no_grad():
        for adapter in layer.active_adapters:
            weight = weight + layer.get_delta_weight(adapter).to(weight.dtype)
    plain = copy.copy(base)
    plain._parameters = dict(base._parameters)
    plain.weight = nn.Parameter(weight, requires_grad=False)
    return plain  # type: ignore[no-any-return]


def _replace(root: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(root.get_submodule(parent), leaf, module)


def _targets(base: nn.Module, spec: LoraSpec) -> list[str]:
    head = base.get_output_embeddings()  # type: ignore[operator]
    targets = []
    for name, module in base.named_modules():
        if module is head:
            wanted = spec.train_unembed
        elif isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D":
            attention = any(word in name.lower() for word in _ATTENTION_WORDS)
            wanted = spec.train_attn if attention else spec.train_mlp
        else:
            continue
        if wanted:
            targets.append(name)
    return targets
