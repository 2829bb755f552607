"""Where the tests find what they check against. Data that is not there skips the tests that need it."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def _existing(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"needs {path.name}, which is not on this machine")
    return path


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of recorded truths."""
    return _existing(SHARED / "golden")


@pytest.fixture(scope="session")
def sample_root() -> Path:
    """24 real games, two train, one seen and one unseen a task type."""
    return _existing(SHARED / "alfworld" / "sample")


@pytest.fixture(scope="session")
def full_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All 4,027 public games. `ALFWORLD_DATA` names an unpacked copy; else the archive is unpacked once a session."""
    if unpacked := os.environ.get("ALFWORLD_DATA"):
        return _existing(Path(unpacked))
    archive = _existing(SHARED / "alfworld" / "json_2.1.1_tw-pddl.tar.xz")
    root = tmp_path_factory.mktemp("alfworld")
    with tarfile.open(archive) as tar:
        tar.extractall(root, filter="data")
    return root
