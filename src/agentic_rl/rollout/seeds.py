"""One seed for the run; a seed of its own for every request."""

from __future__ import annotations

import hashlib
import json

FIRST_REQUEST = -1
"""The `branch` of a group's first request, which serves all branches at once (its turn is 0)."""


def derive_seed(run_seed: int, *, update: int, game_id: str, branch: int, turn: int) -> int:
    """A seed of 31 bits that depends on nothing but its arguments: no machine, no order, no timing."""
    key = json.dumps([run_seed, update, game_id, branch, turn]).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=4).digest(), "big") >> 1
