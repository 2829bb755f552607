"""The PyTRIO backend: sampling and LoRA training over the unmodified `pytrio` SDK, 0.2.8 and 0.2.9.

Importing this package costs nothing; the SDK is loaded when `open_pytrio_policy` or `open_pytrio_sampler` is called.
"""

from agentic_rl.policy.pytrio.policy import PytrioPolicy, open_pytrio_policy
from agentic_rl.policy.pytrio.sampler import PytrioSampler, open_pytrio_sampler

__all__ = ["PytrioPolicy", "PytrioSampler", "open_pytrio_policy", "open_pytrio_sampler"]
