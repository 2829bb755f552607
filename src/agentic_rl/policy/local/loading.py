"""A base model on this machine: a local folder, a hub id, or `builtin`."""

from __future__ import annotations

import hashlib
import os
import socket
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from agentic_rl.errors import BackendError, ConfigError

BUILTIN = "builtin"
BUILTIN_FOLDER = Path(__file__).parent / "builtin"


@dataclass(frozen=True, slots=True)
class BaseModel:
    """Weights that are never changed, and what belongs to them.

    Attributes
    ----------
    name
        As the user wrote it.
    location
        The folder or hub id that `name` stands for.
    model
        A `transformers` causal language model in evaluation mode, frozen.
    fingerprint
        Equal for equal weights; a checkpoint remembers it.
    max_tokens
        The longest sequence the model was made for; None if its config names none.
    """

    name: str
    location: str
    model: nn.Module
    tokenizer: Any
    fingerprint: str
    max_tokens: int | None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """The ids that end a text by the model's own account."""
        ids = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        if ids is None:
            ids = self.tokenizer.eos_token_id
        if ids is None:
            return ()
        return tuple(ids) if isinstance(ids, list | tuple) else (int(ids),)


def load_base_model(name: str, *, device: str | None = None) -> BaseModel:
    """Load `name` onto `device` (CUDA where there is one): float32 on the CPU, bfloat16 on CUDA.

    Raises
    ------
    ConfigError
        The folder holds no model, or the device is not there.
    BackendError
        The hub does not answer or does not know the name, or the files are damaged.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    location = _locate(name)
    target = _device(device)
    dtype = torch.float32 if target.type == "cpu" else torch.bfloat16
    transformers_logging.disable_progress_bar()
    try:
        offline = not Path(location).is_dir() and not _hub_has_an_address()
        tokenizer = AutoTokenizer.from_pretrained(location, local_files_only=offline)
        model = AutoModelForCausalLM.from_pretrained(location, dtype=dtype, local_files_only=offline)
    except Exception as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        hint = (
            "Give a folder with config.json, weights and tokenizer, or `builtin`."
            if Path(location).is_dir()
            else "Check the spelling and the network, or give a local folder or `builtin`."
        )
        raise BackendError(f"cannot load base model {name!r}: {first_line}", hint=hint) from error
    model = model.to(target).eval().requires_grad_(False)
    text_config = model.config.get_text_config()
    return BaseModel(
        name=name,
        location=location,
        model=model,
        tokenizer=tokenizer,
        fingerprint=_fingerprint(model),
        max_tokens=getattr(text_config, "max_position_embeddings", None),
    )


def _locate(name: str) -> str:
    folder = BUILTIN_FOLDER if name == BUILTIN else Path(name).expanduser()
    looks_like_path = name == BUILTIN or name.startswith((".", "~", os.sep)) or name.count("/") > 1
    if folder.is_dir() or looks_like_path:
        if not (folder / "config.json").is_file():
            raise ConfigError(
                f"--base-model {name}: no config.json in {folder}",
                hint="Give a model folder, a hub id, or `builtin`.",
            )
        return str(folder)
    return name


def _hub_has_an_address() -> bool:
    """Whether asking the hub can succeed. Its client would try for half a minute before it looks into its cache."""
    from huggingface_hub import constants

    host = urllib.parse.urlsplit(constants.ENDPOINT).hostname
    if urllib.request.getproxies() or host is None:
        return True
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device {name!r} is not available here", hint="Use `cpu` or `cuda`.") from error
    return device


def _fingerprint(model: nn.Module) -> str:
    """A digest of every weight's name, shape and 64 of its numbers: cheap, and no two trained models share it."""
    digest = hashlib.blake2b(digest_size=8)
    for name, weight in model.named_parameters():
        flat = weight.detach().reshape(-1)
        probe = flat[:: max(1, flat.numel() // 64)][:64].float().cpu()
        digest.update(f"{name}{tuple(weight.shape)}".encode())
        digest.update(probe.numpy().tobytes())
    return digest.hexdigest()
