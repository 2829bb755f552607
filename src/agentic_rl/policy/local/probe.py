"""Which decoder a model can take, found out by trying it."""

from __future__ import annotations

import logging

import torch
from torch import nn

from agentic_rl.policy.local.decoder import Decoder, Work
from agentic_rl.policy.local.forward import logits_at
from agentic_rl.policy.local.lora import share_weights
from agentic_rl.policy.local.ragged import RaggedDecoder, Slots
from agentic_rl.policy.local.sequential import SequentialDecoder

logger = logging.getLogger(__name__)

_KNOWN_LAYERS = {"full_attention", "sliding_attention"}
_LENGTH_BOUND_ROPES = {"dynamic", "longrope"}


def takes_ragged(model: nn.Module) -> bool:
    """Whether the ragged decoder computes this model's logits.

    Two sequences are read in one pass and continued in another, and their logits compared with those of the
    model's own forward pass. An architecture whose layers look at each other outside of attention, or that
    does not use transformers' attention interface, gives other numbers or an error, and takes the sequential decoder.
    """
    config = model.config.get_text_config()  # type: ignore[union-attr, operator]
    if not set(getattr(config, "layer_types", None) or ()) <= _KNOWN_LAYERS:
        return False
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") in _LENGTH_BOUND_ROPES:  # the angles depend on the longest sequence of a pass
        return False
    size = min(config.vocab_size, 200)
    texts = [[(7 * i + 3) % size for i in range(12)], [(5 * i + 1) % size for i in range(9)]]
    device = next(model.parameters()).device
    with torch.inference_mode():
        expected = torch.cat(
            [
                logits_at(
                    model, torch.tensor([t], device=device), torch.tensor([len(t) - 2, len(t) - 1], device=device)
                )
                for t in texts
            ]
        )
    try:
        decoder = RaggedDecoder(share_weights(model), memory_bytes=1 << 30)
        read = decoder.forward([Work(i, 0, text[:-1]) for i, text in enumerate(texts)])
        went_on = decoder.forward([Work(i, len(text) - 1, text[-1:]) for i, text in enumerate(texts)])
    except Exception as error:
        logger.info("sequential decoding: %s", error)
        return False
    found = torch.stack([read[0], went_on[0], read[1], went_on[1]])
    tolerance = 1e-4 if expected.dtype == next(model.parameters()).dtype else 0.05
    worst = float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-6))
    if worst > tolerance:
        logger.info("sequential decoding: the ragged pass differs by %.2g", worst)
        return False
    return True


def open_decoder(model: nn.Module, *, ragged: bool, memory_bytes: int, spare: list[Slots]) -> Decoder:
    """A decoder over a frozen copy of a model; `spare` as in `RaggedDecoder`."""
    return RaggedDecoder(model, memory_bytes, spare=spare) if ragged else SequentialDecoder(model)
