"""The model that plays, opened on whichever backend the command line names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, cast

from agentic_rl.policy.protocol import Sampler


class OpenSampler(Sampler, Protocol):
    """What `open_sampler` gives: a sampler that brings its tokenizer."""

    @property
    def tokenizer(self) -> Any: ...


class SamplerOptions(Protocol):
    """The flags that say which weights play, and within what limits."""

    @property
    def backend(self) -> Any: ...
    @property
    def base_model(self) -> str: ...
    @property
    def model_path(self) -> str | None: ...
    @property
    def run_dir(self) -> Path: ...
    @property
    def sample_timeout(self) -> float: ...
    @property
    def max_trajectory_tokens(self) -> int: ...


def open_player(options: SamplerOptions, *, group_size: int) -> OpenSampler:
    """Open the weights that `options` name; `group_size` is how many completions one request asks for at most."""
    from agentic_rl.policy import open_sampler

    details: dict[str, Any]
    if options.backend == "local":
        details = {"run_root": options.run_dir}
    else:
        details = {
            "sample_timeout_s": options.sample_timeout,
            "max_trajectory_tokens": options.max_trajectory_tokens,
            "group_size": group_size,
        }
    return cast(OpenSampler, open_sampler(options.backend, options.base_model, options.model_path, **details))
