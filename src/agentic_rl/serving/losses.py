"""A loss as the wire names it, checked and turned into one of the engine's.

Each is a plain sum over tokens. Sums are what makes a batch that the client splits add up, and what makes
`forward_backward_custom` exact; a client that wants a mean scales its weights or advantages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentic_rl.serving.wire import OperationError

if TYPE_CHECKING:
    from agentic_rl.policy.local.losses import TokenLoss

_CLIP = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
_DEFAULTS: dict[str, dict[str, float]] = {
    "cross_entropy": {},
    "importance_sampling": {},
    "ppo": _CLIP,
    "cispo": _CLIP,
    "dro": {"beta": 0.05},
}


@dataclass(frozen=True, slots=True)
class WireLoss:
    """A loss and its settings."""

    name: str
    config: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str, config: Mapping[str, Any]) -> WireLoss:
        """Check a loss off the wire; what is unknown is refused, not ignored."""
        defaults = _DEFAULTS.get(name)
        if defaults is None:
            raise OperationError("unknown_loss", f"loss {name!r} is not one of {', '.join(_DEFAULTS)}")
        if unknown := sorted(set(config) - set(defaults)):
            known = ", ".join(defaults) or "none"
            raise OperationError("invalid_loss_config", f"{name} does not know {', '.join(unknown)}; known: {known}")
        values = defaults | dict(config)
        for key, value in values.items():
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
                raise OperationError("invalid_loss_config", f"{name}: {key} must be a number of at least 0")
        if values.get("clip_low_threshold", 0.0) > values.get("clip_high_threshold", 0.0):
            raise OperationError("invalid_loss_config", f"{name}: clip_low_threshold is above clip_high_threshold")
        return cls(name, values)

    @property
    def inputs(self) -> tuple[str, ...]:
        """What a datum must bring besides its targets."""
        return ("weights",) if self.name == "cross_entropy" else ("logprobs", "advantages")

    def of_tokens(self) -> TokenLoss:
        """The loss of each token, by the engine's own functions."""
        from agentic_rl.policy.local import losses

        match self.name:
            case "cross_entropy":
                return losses.cross_entropy
            case "importance_sampling":
                return losses.importance_sampling
            case "dro":
                return losses.dro(self.config["beta"])
            case _:
                make = losses.ppo if self.name == "ppo" else losses.cispo
                return make(self.config["clip_low_threshold"], self.config["clip_high_threshold"])
