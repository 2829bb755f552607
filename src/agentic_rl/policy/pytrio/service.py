"""The connection to the service: login, what it offers, and the SDK's settings under two versions."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from agentic_rl.errors import BackendError, ConfigError, MissingExtraError
from agentic_rl.policy.pytrio.failures import LOGIN_HINT, explained

SUPPORTED = ("0.2.8", "0.2.9")
LOWEST_RANK, HIGHEST_RANK = 4, 64

_RENAMED = {
    "retry_initial_delay": "retry_initial_delay_seconds",
    "sampling_retry_timeout": "sampling_retry_timeout_seconds",
    "training_retry_timeout": "training_retry_timeout_seconds",
    "sampling_max_in_flight": "sampling_request_max_in_flight",
    "sampling_max_queued": "sampling_request_queue_capacity",
    "sampling_worker_threads": None,
    "retry_max_attempts": None,
}
"""Settings by their name in 0.2.8 and in 0.2.9; None where the newer one has no such thing."""

SPARE_CONNECTIONS = 16
"""Connections beside those that sample: events, polls, heartbeats."""

CONTROL_ATTEMPTS = 5
"""How often 0.2.8 sends a control request: 15 seconds in all where no service answers."""

CONTROL_PATIENCE_SECONDS = 45.0
"""How long 0.2.9 repeats a control request; its own 15 minutes also delay the end of the process."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the service takes for one model. None means that it names no limit."""

    context_tokens: int | None
    training_tokens: int | None
    sampling_tokens: int | None
    sampling_batch: int | None

    @property
    def sequence_tokens(self) -> int | None:
        """The longest sequence that can be sampled, scored and trained."""
        named = [n for n in (self.context_tokens, self.training_tokens, self.sampling_tokens) if n is not None]
        return min(named, default=None)


class Service:
    """A logged-in `ServiceClient` and the few things that differ between SDK versions."""

    def __init__(self, sdk: Any, client: Any, address: str) -> None:
        self.sdk = sdk
        self.client = client
        self.address = address

    @classmethod
    def connect(cls, *, telemetry: bool = False, max_in_flight: int = 64, retry_window_s: float = 180.0) -> Service:
        """Log in with the key from the environment or the active profile, which is never written.

        Parameters
        ----------
        telemetry
            Whether the SDK may report its operations to the service.
        max_in_flight
            Sample requests under way at once, per snapshot.
        retry_window_s
            How long a request that finds no server is repeated.
        """
        sdk = load_sdk()
        sdk.configure_observability(enabled=telemetry)
        _configure(sdk, max_in_flight, retry_window_s)
        config = _module(sdk, "config.config")
        for name in ("actor_http_max_connections", "actor_http_max_keepalive_connections"):
            # A connection for each request under way, kept for the next one; `configure` has no word for it.
            if getattr(config.configuration, name, max_in_flight) < max_in_flight + SPARE_CONNECTIONS:
                setattr(config.configuration, name, max_in_flight + SPARE_CONNECTIONS)
        address = str(config.configuration.base_url)
        _spare_loopback_the_proxy(address)
        if (broken := config.auth_state.config_error) is not None:
            raise explained(broken, "reading the PyTRIO profile")
        key = config.auth_state.api_key.strip()
        if not key:
            raise BackendError(f"not logged in to PyTRIO ({address})", hint=LOGIN_HINT)
        try:
            # With the key as an argument 0.2.8 neither asks for one nor writes it into the profile.
            client = sdk.ServiceClient(api_key=key)
        except Exception as error:
            raise explained(error, f"logging in at {address}") from error
        return cls(sdk, client, address)

    def limits(self, base_model: str, *, training: bool) -> Limits:
        """Ask what the service takes for a model; an unknown one is said with what there is."""
        try:
            models = self.client.get_server_capabilities().supported_models
        except Exception as error:
            raise explained(error, "asking for the service's models") from error
        found = [model for model in models if model.model_name == base_model]
        if not found:
            offered = ", ".join(sorted(model.model_name for model in models)) or "none"
            raise ConfigError(
                f"PyTRIO ({self.address}) does not offer {base_model!r}; it offers: {offered}",
                hint="Choose one of them with --base-model.",
            )
        model = found[0]
        if not model.sampling.available or (training and not model.training.available):
            what = "sampling" if not model.sampling.available else "training"
            raise ConfigError(f"PyTRIO does not offer {what} for {base_model} now", hint="Choose another --base-model.")
        trained = model.training if training else None
        longest = (
            [limit for limit in (trained.max_seq_len, trained.max_tokens_per_request) if limit is not None]
            if trained
            else []
        )
        return Limits(
            context_tokens=model.max_context_length,
            training_tokens=min(longest, default=None),
            sampling_tokens=model.sampling.max_seq_len,
            sampling_batch=model.sampling.max_batch_size,
        )

    def call[T](self, work: Callable[[], T], doing: str) -> T:
        """A blocking call of the SDK, its errors in one line."""
        try:
            return work()
        except Exception as error:
            raise explained(error, doing) from error


def load_sdk() -> Any:
    """Import `pytrio`, which takes seconds, and check that it is a version we know."""
    try:
        import pytrio
    except ImportError as error:
        raise MissingExtraError("the PyTRIO backend needs pytrio", hint="uv sync installs it.") from error
    except Exception as error:  # its own check of PYTRIO_LOG_LEVEL and the like
        raise BackendError(f"pytrio cannot be imported: {error}", hint="Check the PYTRIO_… variables.") from error
    return pytrio


def sdk_version() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", metadata.version("pytrio"))[:3])


def run_id(client: Any) -> str:
    """The cuid of a training or sampling client under either version."""
    for name in ("task_id", "training_run_cuid", "sampling_run_cuid"):
        if found := getattr(client, name, None):
            return str(found)
    raise BackendError(f"this version of pytrio ({metadata.version('pytrio')}) names no run id", hint=_versions())


def load_tokenizer(client: Any, model: str) -> Any:
    """The tokenizer that the service names for a client's model: a folder on this machine or a hub's id."""
    try:
        return client.get_tokenizer()
    except Exception as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BackendError(
            f"cannot load the tokenizer of {model} ({getattr(client, 'model_id', '?')}): {said}",
            hint="It is fetched from ModelScope the first time; check the network.",
        ) from error


def check_rank(rank: int) -> None:
    """The SDK refuses other ranks; say so before anything is asked of it."""
    if not LOWEST_RANK <= rank <= HIGHEST_RANK:
        raise ConfigError(f"--lora-rank {rank}: PyTRIO takes {LOWEST_RANK}…{HIGHEST_RANK}", hint="Choose one of them.")


def check_limits(limits: Limits, model: str, asked: Mapping[str, int | None]) -> None:
    """Compare what a run will ask for with what the service takes, before the first token is bought.

    `asked` may hold `max_trajectory_tokens`, `max_turn_tokens` and `group_size`.
    """
    tokens, batch = asked.get("max_trajectory_tokens"), asked.get("group_size")
    if tokens is not None and limits.sequence_tokens is not None and tokens > limits.sequence_tokens:
        raise ConfigError(
            f"sequences may take {tokens} tokens here, and PyTRIO takes {limits.sequence_tokens} for {model}",
            hint=f"Lower --max-trajectory-tokens by {tokens - limits.sequence_tokens} or more.",
        )
    if batch is not None and limits.sampling_batch is not None and batch > limits.sampling_batch:
        raise ConfigError(
            f"--group-size {batch} is more than one request of PyTRIO takes for {model} ({limits.sampling_batch})",
            hint=f"Say --group-size {limits.sampling_batch}.",
        )


async def in_thread[T](work: Callable[[], T]) -> T:
    """A blocking call of the SDK, off the event loop."""
    return await asyncio.to_thread(work)


def _configure(sdk: Any, max_in_flight: int, retry_window_s: float) -> None:
    wanted: dict[str, Any] = {
        "retry_max_attempts": CONTROL_ATTEMPTS,
        "sampling_retry_timeout": retry_window_s,
        "training_retry_timeout": retry_window_s,
        "sampling_max_in_flight": max_in_flight,
        "sampling_max_queued": 4 * max_in_flight,
        "sampling_worker_threads": max_in_flight,
    }
    if sdk_version() >= (0, 2, 9):
        renamed = {_RENAMED.get(name, name): value for name, value in wanted.items()}
        wanted = {name: value for name, value in renamed.items() if name is not None}
        wanted["control_retry_timeout_seconds"] = CONTROL_PATIENCE_SECONDS
    try:
        sdk.configure(**wanted)
    except Exception as error:
        raise BackendError(f"pytrio refuses its settings: {error}", hint=_versions()) from error


def _module(sdk: Any, name: str) -> Any:
    """A module inside the SDK: it holds the stored key and the connection limits, which nothing public hands out."""
    from importlib import import_module

    try:
        module = import_module(f"{sdk.__name__}.{name}")
        _ = module.auth_state.api_key, module.configuration.base_url
    except (ImportError, AttributeError) as error:
        raise BackendError(f"pytrio {metadata.version('pytrio')} is of an unknown make", hint=_versions()) from error
    return module


def _spare_loopback_the_proxy(address: str) -> None:
    """A server on this machine is never behind a proxy."""
    host = urlsplit(address).hostname or ""
    if host in ("127.0.0.1", "::1", "localhost"):
        spared = os.environ.get("NO_PROXY", "")
        if host not in spared.split(","):
            os.environ["NO_PROXY"] = ",".join(filter(None, (spared, host)))


def _versions() -> str:
    return f"Tested with pytrio {' and '.join(SUPPORTED)}."
