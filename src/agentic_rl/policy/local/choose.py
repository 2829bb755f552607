"""From logits to the next token: temperature, top-k, top-p, and one random stream a completion.

A token is chosen by the inverse of the cumulative distribution in float64, row by row, so that what is chosen
depends on nothing but the row's logits and its own uniform number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Choice:
    """How to choose: temperature 0 is greedy, top_p 1 and top_k 0 cut nothing off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


def random_stream(seed: int, index: int) -> np.random.Generator:
    """The uniform numbers of completion `index` of a request with this seed."""
    mask = (1 << 64) - 1
    return np.random.Generator(np.random.Philox(key=np.array([seed & mask, index], dtype=np.uint64)))


def choose_tokens(logits: Tensor, choices: Sequence[Choice], uniforms: Sequence[float]) -> Tensor:
    """Shape (rows,): the token of each row of `logits` (rows, vocabulary).

    `uniforms` has one number in [0, 1) a row; greedy rows do not read theirs.
    """
    device = logits.device
    greedy = torch.tensor([choice.temperature <= 0 for choice in choices], device=device)
    heat = [choice.temperature if choice.temperature > 0 else 1.0 for choice in choices]
    scaled = logits.double() / torch.tensor(heat, dtype=torch.float64, device=device)[:, None]
    probabilities = torch.softmax(scaled, dim=-1)
    if any(choice.top_p < 1 or choice.top_k > 0 for choice in choices):
        probabilities = _truncate(probabilities, choices)
    cumulative = probabilities.cumsum(dim=-1)
    points = torch.tensor(uniforms, dtype=torch.float64, device=device)[:, None] * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, points, right=True).squeeze(-1)
    # Rounding may leave a point at the very end of the last row of mass: step back to the last possible token.
    last = probabilities.shape[-1] - 1 - (probabilities > 0).int().flip(-1).argmax(dim=-1)
    tokens = torch.minimum(tokens, last)
    return torch.where(greedy, logits.argmax(dim=-1), tokens)


def _truncate(probabilities: Tensor, choices: Sequence[Choice]) -> Tensor:
    """Zero the tokens outside each row's top k and outside the smallest set that holds top_p of the mass."""
    rows, size = probabilities.shape
    device = probabilities.device
    top_k = torch.tensor([choice.top_k if choice.top_k > 0 else size for choice in choices], device=device)
    top_p = torch.tensor([choice.top_p for choice in choices], dtype=torch.float64, device=device)
    ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(size, device=device).expand(rows, size)
    # The mass before a token decides, so the token that crosses top_p stays, and the first one always does.
    before = ordered.cumsum(dim=-1) - ordered
    keep = (rank < top_k[:, None]) & ((before < top_p[:, None]) | (top_p[:, None] >= 1))
    keep[:, 0] = True
    return torch.zeros_like(probabilities).scatter(-1, order, ordered * keep)
