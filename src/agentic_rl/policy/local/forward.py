"""One forward pass that computes logits only where they are wanted.

A vocabulary of 150,000 makes the output head the largest tensor of a pass, and nine tokens of ten need no
logits: prompts, observations, padding. The rows are picked just before the head, so whatever a model does to its
logits afterwards (scaling, soft caps) still happens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def logits_at(model: nn.Module, input_ids: Tensor, rows: Tensor, **arguments: Any) -> Tensor:
    """Shape (len(rows), vocabulary), float32 or better: logits at `rows` of the flattened (batch * length) input."""
    head: nn.Module = model.get_output_embeddings()  # type: ignore[operator]

    def pick(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden = inputs[0]
        return (hidden.reshape(-1, hidden.shape[-1]).index_select(0, rows).unsqueeze(0), *inputs[1:])

    handle = head.register_forward_pre_hook(pick)
    try:
        output = model(input_ids=input_ids, **arguments)
    finally:
        handle.remove()
    logits: Tensor = output.logits[0]
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def token_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Shape (rows,): the log-probability of each row's token under the model itself."""
    chosen = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(logits, dim=-1)


def entropy(logits: Tensor) -> Tensor:
    """Shape (rows,): the entropy of each row's distribution, in nats."""
    logprobs = torch.log_softmax(logits, dim=-1)
    return -(logprobs.exp() * logprobs).sum(dim=-1)
