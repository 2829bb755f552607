"""Which decoder a model can take, found out by trying it."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor, nn

from agentic_rl.policy.local.decoder import Decoder, Work
from agentic_rl.policy.local.forward import logits_at
from agentic_rl.policy.local.lora import share_weights
from agentic_rl.policy.local.ragged import RaggedDecoder
from agentic_rl.policy.local.sequential import SequentialDecoder
from agentic_rl.policy.local.slot_pool import SlotPool

logger = logging.getLogger(__name__)

type OpenDecoder = Callable[[nn.Module, SlotPool], Decoder]
"""(a frozen copy of a model, where its slots come from) -> decoder"""

_ATTENTION_LAYERS = {"full_attention", "sliding_attention"}
_LENGTH_BOUND_ROPES = {"dynamic", "longrope"}


def choose_decoder(model: nn.Module) -> OpenDecoder:
    """The fastest decoder that computes this model's logits.

    Each is tried: two sequences are read in one pass, go on by one token together, read more and go on, and their
    logits are compared with those of the model's own forward pass. An architecture whose layers look at each other
    outside of attention, or that does not use transformers' attention interface, gives other numbers or an
    error there, and takes the next.
    """
    config = model.config.get_text_config()  # type: ignore[union-attr, operator]
    layers = set(getattr(config, "layer_types", None) or ())
    rope = getattr(config, "rope_parameters", None) or {}
    # Angles that depend on the longest sequence of a pass cannot be shared by sequences.
    if rope.get("rope_type") not in _LENGTH_BOUND_ROPES and "chunked_attention" not in layers:
        candidates = [_ragged] if layers <= _ATTENTION_LAYERS else [_stacked]
        for candidate in candidates:
            if _agrees(model, candidate):
                return candidate
    logger.info("%s is decoded one sequence after another", type(model).__name__)
    return _sequential


def _ragged(model: nn.Module, pool: SlotPool) -> Decoder:
    return RaggedDecoder(model, pool)


def _stacked(model: nn.Module, pool: SlotPool) -> Decoder:
    from agentic_rl.policy.local.stacked import StackedDecoder

    return StackedDecoder(model, pool)


def _sequential(model: nn.Module, pool: SlotPool) -> Decoder:
    return SequentialDecoder(model, pool)


def _agrees(model: nn.Module, candidate: OpenDecoder) -> bool:
    size = min(model.config.get_text_config().vocab_size, 200)  # type: ignore[union-attr, operator]
    texts = [[(7 * i + 3) % size for i in range(15)], [(5 * i + 1) % size for i in range(11)]]
    steps = (-6, -5, -1, 0)  # the texts are read up to these places, counted from their ends
    try:
        expected = torch.cat([_own_logits(model, text, steps) for text in texts])
        decoder = candidate(share_weights(model), SlotPool(1 << 30))
        found = [_read_on(decoder, texts, before, after) for before, after in zip((None, *steps), steps, strict=False)]
    except Exception as error:
        logger.info("%s failed on %s: %s", candidate.__name__, type(model).__name__, error)
        return False
    worst = float((torch.stack(found, dim=1).flatten(0, 1) - expected).abs().max() / expected.abs().max())
    return worst < (1e-4 if next(model.parameters()).dtype.itemsize >= 4 else 0.05)


def _own_logits(model: nn.Module, text: list[int], steps: tuple[int, ...]) -> Tensor:
    device = next(model.parameters()).device
    rows = torch.tensor([len(text) + step - 1 for step in steps], device=device)
    with torch.inference_mode():
        return logits_at(model, torch.tensor([text], device=device), rows, use_cache=False)


def _read_on(decoder: Decoder, texts: list[list[int]], before: int | None, after: int) -> Tensor:
    works = []
    for slot, text in enumerate(texts):
        start = 0 if before is None else len(text) + before
        works.append(Work(slot, start, text[start : len(text) + after]))
    return decoder.forward(works)
