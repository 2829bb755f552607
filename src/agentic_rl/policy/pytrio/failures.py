"""The SDK's errors as one line each, and which operations may be tried again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agentic_rl.errors import BackendError

logger = logging.getLogger(__name__)

LOGIN_HINT = "Run `trio login` (or set PYTRIO_API_KEY); only to see it run, `--preset laptop` needs no account."

_REFUSED = {"unauthorized", "forbidden", "api_key_expired", "api_key_revoked", "api_key_disabled"}
_BROKEN = {"event.session_broken", "event.session_closed", "training.run_broken", "training.run_closed"}
_HINTS = {
    "billing_insufficient_balance": "Top up the PyTRIO balance; the run can be resumed from its last saved state.",
    "model_not_found": "Choose another --base-model.",
    "checkpoint_not_found": "Check the trio:// path; temporary checkpoints expire.",
    "checkpoint_invalid_type": "Training resumes from a `Saved state` path; evaluation takes `Saved sampler weights`.",
    "run_lost": "Start again with --resume.",
    "event_not_found": "The service has forgotten what it was doing; resume from the last saved state.",
    "context_length_exceeded": "Lower --max-trajectory-tokens.",
}

ATTEMPTS = 4
STILL_WAITING_SECONDS = 30.0


def explained(error: BaseException, doing: str) -> BackendError:
    """One line: what was being done, what the service said, how to mend it."""
    code = str(getattr(error, "code", "") or type(error).__name__)
    said = str(getattr(error, "message", "") or error or type(error).__name__)
    if code in _REFUSED:
        return BackendError(f"PyTRIO refused the login while {doing}: {said} ({code})", hint=LOGIN_HINT)
    if code == "auth.missing_api_key":
        return BackendError("not logged in to PyTRIO", hint=LOGIN_HINT)
    if code in _BROKEN:
        hint = "The remote run cannot be used any more; resume from the last saved state."
        return BackendError(f"PyTRIO broke off while {doing}: {said} ({code})", hint=hint)
    advice = _HINTS.get(code) or str(getattr(error, "hint", "") or "") or None
    return BackendError(f"PyTRIO failed while {doing}: {said} ({code})", hint=advice)


async def repeated[T](
    attempt: Callable[[], Awaitable[T]], doing: str, *, changes_nothing: bool = False, delay: float = 1.0
) -> T:
    """Do something that leaves nothing behind when it fails, and do it again if the failure may pass.

    The SDK itself rides out network failures and busy answers. What reaches us has a fate that is known: an event that
    the service reports as failed, or a request that it refused. Anything else is not repeated, because it may
    have been done; only what `changes_nothing` at the service (sampling, scoring) is also repeated when its answer was
    cut off, which 0.2.9 leaves to the caller.
    """
    for number in range(1, ATTEMPTS + 1):
        try:
            return await waiting(attempt(), doing)
        except Exception as error:
            if number == ATTEMPTS or not _may_pass(error, changes_nothing):
                raise explained(error, doing) from error
            logger.warning("%s (attempt %d of %d)", explained(error, doing), number, ATTEMPTS)
        await asyncio.sleep(delay * 2 ** (number - 1))
    raise AssertionError("unreachable")


@dataclass(slots=True)
class _Waiting:
    """Who waits for the service since when; one line at a time speaks for all of them."""

    since: dict[object, tuple[float, str]] = field(default_factory=dict)
    said: float = 0.0

    def say(self) -> None:
        now = time.monotonic()
        if now - self.said < STILL_WAITING_SECONDS:
            return
        self.said = now
        start, doing = min(self.since.values())
        others = f" ({len(self.since) - 1} others wait too)" if len(self.since) > 1 else ""
        logger.warning("still waiting for PyTRIO after %.0f s: %s%s", now - start, doing, others)


_WAITING = _Waiting()


async def waiting[T](work: Awaitable[T], doing: str) -> T:
    """Await, and say now and then that we still do: a busy service may keep a call for long."""
    task = asyncio.ensure_future(work)
    ticket = object()
    _WAITING.since[ticket] = time.monotonic(), doing
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=STILL_WAITING_SECONDS)
            if not task.done():
                _WAITING.say()
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        del _WAITING.since[ticket]
    return task.result()


def _may_pass(error: Exception, changes_nothing: bool) -> bool:
    kind = type(error).__name__
    if changes_nothing and getattr(error, "code", "") == "actor.invalid_response":
        return True
    if kind == "EventFailedError":
        return bool(getattr(error, "retryable", False))
    # A refused request did nothing; submits that are refused break the run, so repeating them is pointless.
    return kind in ("ControlAPIError", "ActorAPIError") and (
        bool(getattr(error, "retryable", False)) or getattr(error, "status_code", 0) == 401
    )
