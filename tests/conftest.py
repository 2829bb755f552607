"""Where the tests find what they check against. Data that is not there skips the tests that need it."""

from __future__ import annotations

import os
import signal
import tarfile
import threading
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def _existing(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"needs {path.name}, which is not on this machine")
    return path


def pytest_configure() -> None:
    """A worker of pytest-xdist ignores Ctrl-C, and so would every process that its tests start and interrupt."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
    """All 4,027 public games. `AGENTIC_RL_FULL_DATA` names an unpacked copy; else the archive is unpacked once.

    Not `ALFWORLD_DATA`: alfworld sets that on import.
    """
    if unpacked := os.environ.get("AGENTIC_RL_FULL_DATA"):
        return _existing(Path(unpacked))
    archive = _existing(SHARED / "alfworld" / "json_2.1.1_tw-pddl.tar.xz")
    root = tmp_path_factory.mktemp("alfworld")
    with tarfile.open(archive) as tar:
        tar.extractall(root, filter="data")
    return root
