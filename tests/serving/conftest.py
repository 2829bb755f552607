"""One server for the tests of this folder that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import served


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[served.Server]:
    with served.serving(tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture(scope="session")
def trio(server: served.Server, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The real SDK, pointed at the server."""
    return served.point_sdk_at(server, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def service(trio: Any) -> Any:
    """A logged-in client."""
    return trio.ServiceClient(api_key=served.API_KEY)


@pytest.fixture(autouse=True)
def _clients_die_in_this_thread() -> Iterator[None]:
    with served.garbage_kept():
        yield
