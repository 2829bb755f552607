"""Muon (Jordan et al. 2024): momentum whose matrices are made nearly orthogonal before they are applied."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

_A, _B, _C = 3.4445, -4.7750, 2.0315  # the quintic that pushes singular values from (0, 1] towards 1


def orthogonalized(matrices: Tensor, iterations: int = 5) -> Tensor:
    """Newton-Schulz on a stack of matrices, shape (n, rows, columns)."""
    wide = matrices.mT if matrices.size(-2) > matrices.size(-1) else matrices
    x = wide / (wide.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    result: Tensor = x.mT if matrices.size(-2) > matrices.size(-1) else x
    return result


class Muon(torch.optim.Optimizer):
    """For the matrices inside a network; embeddings and vectors belong to Adam."""

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                by_shape.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in by_shape.items():
                updates = orthogonalized(torch.stack([self._momentum(p, group["momentum"]) for p in parameters]))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-scale)

    def _momentum(self, parameter: Tensor, momentum: float) -> Tensor:
        assert parameter.grad is not None
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(state["momentum"], momentum)
