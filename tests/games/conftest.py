"""Real games by name, straight from the archive: unpacking it would write 360 MB for every test process."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).resolve().parents[3] / "shared" / "alfworld" / "json_2.1.1_tw-pddl.tar.xz"

type Texts = Callable[[Callable[[str], bool]], Iterator[tuple[str, str]]]


def _name(path: str) -> str:
    """`<split>/<task>/<trial>`."""
    return "/".join(path.split("/")[-4:-1])


@pytest.fixture(scope="session")
def game_texts() -> Texts:
    """All public games that a condition on their name picks: name and text, in the archive's order."""
    unpacked = os.environ.get("AGENTIC_RL_FULL_DATA") or None
    if unpacked is None and not ARCHIVE.exists():
        pytest.skip(f"needs {ARCHIVE.name}, which is not on this machine")

    def texts(wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        if unpacked is not None:
            for path in sorted(Path(unpacked).rglob("game.tw-pddl")):
                if wanted(name := _name(path.as_posix())):
                    yield name, path.read_text(encoding="utf-8")
            return
        with tarfile.open(ARCHIVE, "r|xz") as tar:
            for member in tar:
                if member.isfile() and wanted(name := _name(member.name)):
                    file = tar.extractfile(member)
                    assert file is not None
                    yield name, file.read().decode()

    return texts
