"""What is loaded is out of the collector's sight, and garbage is not kept by it."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

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


def test_a_process_that_settled_ends_in_silence() -> None:
    pytest.importorskip("torch")
    script = (
        "import torch._dynamo, torch._inductor.utils\n"  # triton, where it is there, counts its objects at the end
        "from agentic_rl.policy.settle import settle_memory\n"
        "settle_memory()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
