"""What is loaded is out of the collector's sight, and garbage is not kept by it."""

from __future__ import annotations

import gc
import weakref

from agentic_rl.policy.settle import settle_memory


class Knot:
    """Garbage that only the collector can see: it holds itself."""

    def __init__(self) -> None:
        self.itself = self


def test_what_stays_is_not_looked_at_again_and_garbage_goes() -> None:
    kept, garbage = Knot(), weakref.ref(Knot())
    try:
        settle_memory()
        assert garbage() is None
        assert gc.get_freeze_count() > 10_000
        assert not any(found is kept for found in gc.get_objects())
        later = weakref.ref(Knot())
        gc.collect()
        assert later() is None, "what comes after is collected as ever"
    finally:
        gc.unfreeze()
