"""What a run has used of the service, by kind, in tokens and requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path

KINDS = ("prefill", "cached", "sample", "train", "scoring")


class Usage:
    """Counts by kind. Samples are counted as the service reports them.

    The SDK passes no usage on for training and scoring; there we count what we send: every input token of
    `forward_backward` (`train`) and of `compute_logprobs` (`scoring`). The service reports no cached tokens (0.2.9),
    so `cached` stays 0 until it does.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._tokens = dict.fromkeys(KINDS, 0)
        self._requests = dict.fromkeys(KINDS, 0)
        self._reported = dict.fromkeys(KINDS, 0)
        if path is not None and path.exists():  # a resumed run goes on counting
            saved = json.loads(path.read_text())
            self._tokens |= {kind: int(saved["tokens"].get(kind, 0)) for kind in KINDS}
            self._requests |= {kind: int(saved["requests"].get(kind, 0)) for kind in KINDS}
            self._reported = dict(self._tokens)

    def add(self, kind: str, tokens: int, *, requests: int = 1) -> None:
        with self._lock:
            self._tokens[kind] += tokens
            self._requests[kind] += requests

    def totals(self) -> Mapping[str, int]:
        """Tokens since the run began, as `KIND_tokens`."""
        with self._lock:
            return {f"{kind}_tokens": count for kind, count in self._tokens.items()}

    def since_last(self) -> dict[str, float]:
        """Tokens since this was last asked, as metrics; also writes the totals to the run directory."""
        with self._lock:
            metrics = {
                f"trainer/usage/{kind}_tokens": float(self._tokens[kind] - self._reported[kind]) for kind in KINDS
            }
            self._reported = dict(self._tokens)
        self.write()
        return metrics

    def write(self) -> None:
        if self._path is None:
            return
        with self._lock:
            saved = {"tokens": dict(self._tokens), "requests": dict(self._requests)}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(".tmp")
        beside.write_text(json.dumps(saved, indent=1))
        beside.rename(self._path)
