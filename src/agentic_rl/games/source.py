"""From what `--games` says to a list of playable games, for training and evaluation alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentic_rl.errors import ConfigError
from agentic_rl.games.interface import GameEntry

HOUSEHOLDS_A_SPLIT = {"train": 3_553, "valid_seen": 300, "valid_unseen": 300}
"""As many games to train on as ALFWorld has; enough held-out ones to tell a few points apart."""

GENERATOR_SEED = 0
"""The panel of generated games is the same whatever the run's seed, as a dataset on disk would be."""


def load_entries(source: str, data_root: Path, splits: Sequence[str]) -> list[GameEntry]:
    """Every game of `splits`, in a fixed order that no seed touches.

    Parameters
    ----------
    source
        `alfworld` (the files under `data_root`) or `household[:difficulty]` (no files at all).

    Raises
    ------
    ConfigError
        An unknown source or an unknown split.
    DatasetError
        The dataset is missing, half downloaded or unreadable.
    """
    if source == "alfworld":
        from agentic_rl.games import discover

        return list(discover(data_root, splits))
    if not source.startswith("household"):
        raise ConfigError(f"--games {source} is unknown", hint="Use alfworld, household, or household:1 to household:5")
    from agentic_rl.games.generate import household_games, parse_household

    difficulty = parse_household(source)
    entries: list[GameEntry] = []
    for split in splits:
        if split not in HOUSEHOLDS_A_SPLIT:
            known = ", ".join(HOUSEHOLDS_A_SPLIT)
            raise ConfigError(f"there are no generated games for the split {split!r}", hint=f"Use one of {known}")
        entries += household_games(split, HOUSEHOLDS_A_SPLIT[split], difficulty, GENERATOR_SEED)
    return entries
