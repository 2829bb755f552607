"""Readings of the model's inner states that show it, while it is trained, what to look for."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from transformers import Qwen3Config


class Hints(nn.Module):
    """Two linear readings of the model's inner states, trained along with it and thrown away in the end.

    They give a gradient to each of the two steps of seeing that what is looked for is here: that a name in the list
    is the one in the task (read after layer 1), and that the latest list has it (read after layer 3, where the call
    begins, as the verb that the explorer would say). The loss of the calls alone does not find both at once.
    """

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.sought = nn.Linear(config.hidden_size, 1)
        self.aim = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, states: Sequence[Tensor], sought: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
        """The mean losses of both readings; `sought` and `aims` as in `Example`, shape (rows, tokens)."""
        named, called = sought >= 0, aims >= 0
        found = self.sought(_even(states[2][named]))[:, 0]
        seen = F.binary_cross_entropy_with_logits(found, sought[named].float(), reduction="sum")
        meant = F.cross_entropy(self.aim(_even(states[4][called])), aims[called], reduction="sum")
        return seen / named.sum().clamp(min=1), meant / called.sum().clamp(min=1)


def _even(state: Tensor) -> Tensor:
    return F.rms_norm(state, state.shape[-1:])
