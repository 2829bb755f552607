"""A tiny model for every test of this room; its folder is on the import path of the tests below."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import build


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3-shaped model of random weights, 2 layers, with its tokenizer."""
    return build(tmp_path_factory.mktemp("tiny"))
