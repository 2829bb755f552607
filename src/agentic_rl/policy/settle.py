"""What is loaded once and stays is no business of the garbage collector."""

from __future__ import annotations

import atexit
import gc


def settle_memory() -> None:
    """Take everything that is loaded so far out of the garbage collector's sight.

    A full collection looks at every object there is. With torch, transformers and an SDK in memory those are
    millions, and for as long as they are looked at (0.5 s on a quiet machine, 2 s on a busy one) the event loop stands
    still: no trajectory goes on, no heartbeat leaves. Call it once, when all that stays is loaded.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # at the end all must go, or extension modules report leaks on standard error
