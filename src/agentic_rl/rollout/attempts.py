"""Trying again: what one failed request may cost before it costs its trajectory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agentic_rl.errors import AgenticRLError, BackendError, EnvironmentFailure, GameFileError

FIRST_PAUSE_S = 0.1

logger = logging.getLogger(__name__)


class TrajectoryFailure(BackendError):  # noqa: N818 - what failed is the trajectory
    """What ends one trajectory, and nothing else: it is dropped from its group and counted."""


def costs_one_trajectory(error: Exception) -> bool:
    """Whether an error concerns one request or episode, rather than what the user asked for."""
    return not isinstance(error, AgenticRLError) or isinstance(error, BackendError | EnvironmentFailure | GameFileError)


async def with_retries[T](
    request: Callable[[], Awaitable[T]], *, what: str, retries: int, timeout_s: float | None
) -> T:
    """The answer to a request, tried again after a failure with growing pauses.

    Parameters
    ----------
    what
        What was being done, for the message: game, branch and turn.

    Raises
    ------
    TrajectoryFailure
        The last try failed too.
    """
    for attempt in range(retries + 1):
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return await request()
        except Exception as error:
            if not costs_one_trajectory(error):
                raise
            reason = f"no answer within {timeout_s:g} s" if limit.expired() else describe(error)
            cause = error
        logger.info("%s: %s (try %d of %d)", what, reason, attempt + 1, retries + 1)
        if attempt < retries:
            await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
    tries = "1 try" if retries == 0 else f"{retries + 1} tries"
    raise TrajectoryFailure(f"{what} failed after {tries}: {reason}") from cause


def describe(error: BaseException) -> str:
    """One line on an error: its own text where that was written for people, else with its type."""
    return str(error) if isinstance(error, AgenticRLError) else f"{type(error).__name__}: {error}".rstrip(": ")
