"""A server in this process and the real SDK pointed at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import served


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[served.Server]:
    with served.serving(tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture
def logged_in(server: served.Server, tmp_path: Path) -> Path:
    """The SDK speaks to the server; returns its home folder."""
    home = tmp_path / "home"
    home.mkdir()
    served.point_sdk_at(server, home)
    return home


@pytest.fixture(autouse=True)
def _clients_die_in_this_thread() -> Iterator[None]:
    with served.garbage_kept():
        yield
