"""Names of runs and events, and the bearer tokens of their actor side."""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

ALPHABET = "0123456789abcdefghjkmnptvwxyz"
"""Letters that cannot be mistaken for one another."""

EVENT_ID = re.compile(r"event_[0-9a-z]{4,64}\Z")
REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")

TOKEN_LIFETIME = timedelta(days=30)


def new_id(prefix: str) -> str:
    """`prefix_` and twelve random characters."""
    return f"{prefix}_" + "".join(secrets.choice(ALPHABET) for _ in range(12))


def now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """ISO 8601 with a zone, as the protocol wants it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Signed bearer tokens that name one run. They hold no state, so that they survive a restart of the server."""

    secret: bytes

    def issue(self, run: str) -> tuple[str, datetime]:
        """A fresh token of a run and when it ends."""
        expires = now() + TOKEN_LIFETIME
        body = f"{run}.{int(expires.timestamp())}.{secrets.token_hex(4)}"
        return f"{body}.{self._sign(body)}", expires

    def run_of(self, token: str) -> str | None:
        """The run that a token speaks for; None if it is not ours or too old."""
        body, _, signature = token.rpartition(".")
        parts = body.split(".")
        if len(parts) != 3 or not hmac.compare_digest(self._sign(body).encode(), signature.encode()):
            return None
        run, expires, _ = parts
        return run if int(expires) > now().timestamp() else None

    def _sign(self, body: str) -> str:
        return hmac.digest(self.secret, body.encode(), "sha256").hex()
