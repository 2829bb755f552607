"""Which games an evaluation plays: sorted, unique, hashed; the same on every machine, however many at a time."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Protocol

from agentic_rl.errors import ResultsError


class Named(Protocol):
    """All a panel needs to know of a game."""

    @property
    def game_id(self) -> str: ...

    @property
    def split(self) -> str: ...


def choose_games[Game: Named](games: Iterable[Game], *, limit_per_split: int = 0, seed: int = 0) -> tuple[Game, ...]:
    """The games of a panel, sorted by id.

    Parameters
    ----------
    limit_per_split
        How many of each split; 0 takes all. A smaller limit takes a subset of what a larger one takes.
    seed
        Which ones, if not all: games are ranked by a hash of seed and id, so that neither the order nor the number
        of the others matters, and a short panel still mixes task types.
    """
    unique: dict[str, Game] = {}
    for game in games:
        if game.game_id in unique:
            raise ResultsError(f"the game {game.game_id} stands in the panel twice")
        unique[game.game_id] = game
    taken: dict[str, int] = {}
    chosen = []
    for game in sorted(unique.values(), key=lambda game: _rank(seed, game.game_id)):
        taken[game.split] = taken.get(game.split, 0) + 1
        if not limit_per_split or taken[game.split] <= limit_per_split:
            chosen.append(game)
    return tuple(sorted(chosen, key=lambda game: game.game_id))


def panel_hash(game_ids: Iterable[str]) -> str:
    """Sixteen hexadecimal digits that name a set of games, in whatever order they come."""
    return blake2b("\n".join(sorted(game_ids)).encode(), digest_size=8).hexdigest()


def _rank(seed: int, game_id: str) -> bytes:
    return blake2b(f"{seed}\n{game_id}".encode(), digest_size=16).digest()
