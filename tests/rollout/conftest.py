"""What the rollout's tests play with: the builtin tokenizer's chat format and generated games."""

from __future__ import annotations

from pathlib import Path

import pytest

import agentic_rl.policy.local
from agentic_rl.dialogue import ChatFormat
from agentic_rl.games.generate import household_games
from agentic_rl.games.interface import GameEntry
from agentic_rl.rollout import RolloutConfig


@pytest.fixture(scope="session")
def chat() -> ChatFormat:
    transformers = pytest.importorskip("transformers")
    folder = Path(agentic_rl.policy.local.__path__[0]) / "builtin"
    # Not AutoTokenizer, which would bring torch with it.
    return ChatFormat.from_tokenizer(transformers.PreTrainedTokenizerFast.from_pretrained(folder))


@pytest.fixture(scope="session")
def games() -> list[GameEntry]:
    """Four small generated games."""
    return list(household_games("train", 4, 1, seed=0))


@pytest.fixture
def config() -> RolloutConfig:
    return RolloutConfig(group_size=3, max_turns=30, max_trajectory_tokens=4000, max_turn_tokens=60, seed=7)
