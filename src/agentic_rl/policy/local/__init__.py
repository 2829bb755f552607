"""The local backend: sampling, scoring and LoRA training on this machine with torch, transformers and peft.

`open_local_policy` and `open_local_sampler` are the way in; `Studio` is for those who want several adapters of one
base model in one process (the server). Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentic_rl.errors import MissingExtraError

if TYPE_CHECKING:
    from agentic_rl.policy.local.policy import LocalPolicy, open_local_policy, open_local_sampler
    from agentic_rl.policy.local.studio import LocalSampler, Studio

__all__ = ["LocalPolicy", "LocalSampler", "Studio", "open_local_policy", "open_local_sampler"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from agentic_rl.policy.local import policy, studio
    except ModuleNotFoundError as error:
        if error.name in {"torch", "peft", "safetensors"}:
            raise MissingExtraError(
                f"the local backend needs {error.name}",
                hint='Install the extra: `pip install "agentic-rl-lab[local]"`.',
            ) from error
        raise
    return getattr(studio if name in {"Studio", "LocalSampler"} else policy, name)
