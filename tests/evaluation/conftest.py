"""What the evaluation's tests play with: the builtin tokenizer's chat format and generated games."""

from __future__ import annotations

import pytest

import agentic_rl.policy.local as local
from agentic_rl.dialogue import ChatFormat
from agentic_rl.games.generate import household_games
from agentic_rl.games.interface import GameEntry
from agentic_rl.rollout import RolloutConfig


@pytest.fixture(scope="session")
def chat() -> ChatFormat:
    transformers = pytest.importorskip("transformers")
    return ChatFormat.from_tokenizer(transformers.AutoTokenizer.from_pretrained(f"{local.__path__[0]}/builtin"))


@pytest.fixture(scope="session")
def games() -> list[GameEntry]:
    """Three seen and three unseen small generated games, of six task types."""
    seen, unseen = household_games("valid_seen", 3, 1, seed=0), household_games("valid_unseen", 6, 1, seed=0)[3:]
    return [*seen, *unseen]


@pytest.fixture
def config() -> RolloutConfig:
    return RolloutConfig(group_size=1, max_turns=30, max_trajectory_tokens=6000, max_turn_tokens=80, max_live=2)
