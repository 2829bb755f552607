"""Faults on demand: what a network and a busy service do to a client, at a given rate and from a given seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentic_rl.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

KINDS = {
    "error": "answers 503 without doing anything",
    "drop": "cuts the connection, before or after the work is done",
    "slow": "answers late",
    "expired-token": "refuses a bearer token that has served before, so that the client has to renew it",
    "failed-event": "ends a training event as failed, with nothing done",
}
SLOW_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """One `--fault KIND:RATE[:SEED]`."""

    kind: str
    rate: float
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> FaultSpec:
        kind, _, rest = text.partition(":")
        rate, _, seed = rest.partition(":")
        if kind not in KINDS:
            raise ConfigError(f"--fault {text!r}: unknown kind {kind!r}", hint=f"Choose from {', '.join(KINDS)}.")
        try:
            spec = cls(kind, float(rate), int(seed or 0))
        except ValueError:
            raise ConfigError(f"--fault {text!r} is not KIND:RATE or KIND:RATE:SEED", hint="Say error:0.05.") from None
        if not 0 <= spec.rate <= 1:
            raise ConfigError(f"--fault {text!r}: the rate must lie between 0 and 1")
        return spec


@dataclass(slots=True)
class Faults:
    """Draws the faults; each kind has a stream of its own. `counts` says how many of each were injected."""

    specs: Sequence[FaultSpec] = ()
    counts: dict[str, int] = field(default_factory=dict)
    _streams: dict[str, random.Random] = field(default_factory=dict)
    _used_tokens: set[str] = field(default_factory=set)

    def strikes(self, kind: str) -> bool:
        """Whether this occasion is hit by a fault of the kind."""
        for spec in self.specs:
            stream = self._streams.setdefault(f"{spec.kind}/{spec.seed}", random.Random(f"{spec.kind}/{spec.seed}"))
            if spec.kind == kind and stream.random() < spec.rate:
                self.counts[kind] = self.counts.get(kind, 0) + 1
                return True
        return False

    def expires(self, token: str) -> bool:
        """Whether a good token is refused now. A token's first use always succeeds."""
        if token not in self._used_tokens:
            self._used_tokens.add(token)
            return False
        return self.strikes("expired-token")


class FaultyTransport:
    """ASGI middleware for the faults that strike below the protocol: errors, cut connections, slow answers."""

    def __init__(self, app: ASGIApp, faults: Faults) -> None:
        self.app = app
        self.faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/healthz":
            await self.app(scope, receive, send)
            return
        if self.faults.strikes("slow"):
            await asyncio.sleep(SLOW_SECONDS)
        if self.faults.strikes("error"):
            body = b'{"code":"service_unavailable","message":"injected fault"}'
            await send({"type": "http.response.start", "status": 503, "headers": _json_headers(len(body))})
            await send({"type": "http.response.body", "body": body})
            return
        if self.faults.strikes("drop"):
            if self.faults.counts["drop"] % 2 == 0:
                await self.app(scope, receive, _swallow)
            # Announce more than is sent and stop: the server then closes the connection under the client's feet.
            await send({"type": "http.response.start", "status": 200, "headers": _json_headers(1 << 20)})
            await send({"type": "http.response.body", "body": b"{", "more_body": True})
            return
        await self.app(scope, receive, send)


async def _swallow(message: Message) -> None:
    """The work is done; its answer never leaves the house."""


def _json_headers(length: int) -> Iterable[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", str(length).encode())]
