"""Training: the one loop that all recipes share, and what it leaves on disk.

Joins rollout, credit and a policy. `TrainConfig` is light, for `--help`; `train` comes with all that a run needs.
"""

from typing import TYPE_CHECKING, Any

from agentic_rl.training.config import LAPTOP, TrainConfig

if TYPE_CHECKING:
    from agentic_rl.training.run import train

__all__ = ["LAPTOP", "TrainConfig", "train"]


def __getattr__(name: str) -> Any:
    if name == "train":
        from agentic_rl.training.run import train

        return train
    raise AttributeError(name)
