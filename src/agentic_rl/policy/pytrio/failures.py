"""The SDK's errors as one line each, and which operations may be tried again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

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


async def repeated[T](attempt: Callable[[], Awaitable[T]], doing: str, *, delay: float = 1.0) -> T:
    """Do something that leaves nothing behind when it fails, and do it again if the failure may pass.

    The SDK itself rides out network failures and busy answers. What reaches us has a fate that is known: an event that
    the service reports as failed, or a request that it refused. Anything else is not repeated, because it may
    have been done.
    """
    for number in range(1, ATTEMPTS + 1):
        try:
            return await waiting(attempt(), doing)
        except Exception as error:
            if number == ATTEMPTS or not _may_pass(error):
                raise explained(error, doing) from error
            logger.warning("%s (attempt %d of %d)", explained(error, doing), number, ATTEMPTS)
        await asyncio.sleep(delay * 2 ** (number - 1))
    raise AssertionError("unreachable")


async def waiting[T](work: Awaitable[T], doing: str) -> T:
    """Await, and say now and then that we still do: a busy service may keep a call for long."""
    task = asyncio.ensure_future(work)
    waited = 0.0
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=STILL_WAITING_SECONDS)
            if not task.done():
                waited += STILL_WAITING_SECONDS
                logger.warning("still waiting for PyTRIO after %.0f s: %s", waited, doing)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return task.result()


def _may_pass(error: Exception) -> bool:
    kind = type(error).__name__
    if kind == "EventFailedError":
        return bool(getattr(error, "retryable", False))
    # A refused request did nothing; submits that are refused break the run, so repeating them is pointless.
    return kind in ("ControlAPIError", "ActorAPIError") and (
        bool(getattr(error, "retryable", False)) or getattr(error, "status_code", 0) == 401
    )


def plain(value: Any) -> str:
    """A value of the service for a message, short."""
    return str(value)[:200]
