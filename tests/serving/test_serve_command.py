"""`agentic-rl serve`: its flags, and the process itself."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from agentic_rl.errors import ConfigError
from agentic_rl.serving import command


def parse(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(required=True))
    return parser.parse_args(["serve", *argv])


def test_by_default_only_this_machine_is_served(tmp_path: Path) -> None:
    settings = command.settings_of(parse("--state-dir", str(tmp_path)))
    assert settings.host == "127.0.0.1"
    assert settings.served_names == ("builtin",)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org"])
def test_other_addresses_need_a_flag_of_their_own(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="--allow-remote"):
        command.settings_of(parse("--state-dir", str(tmp_path), "--host", host))
    settings = command.settings_of(parse("--state-dir", str(tmp_path), "--host", host, "--allow-remote"))
    assert settings.host == host


def test_a_key_is_made_once_and_kept_for_the_owner_alone(tmp_path: Path) -> None:
    first, second = (command.settings_of(parse("--state-dir", str(tmp_path))).api_key for _ in range(2))
    assert first == second
    assert len(first) > 20
    assert (tmp_path / "api_key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "argv",
    [
        ("--port", "70000"),
        ("--api-key", " "),
        ("--api-key", "schlüssel"),
        ("--fault", "x:1"),
        ("--max-sequence-tokens", "1"),
    ],
)
def test_flags_that_cannot_work_are_refused_in_one_line(tmp_path: Path, argv: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        command.settings_of(parse("--state-dir", str(tmp_path), *argv))


@pytest.mark.slow
def test_the_process_answers_once_the_model_is_loaded_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    argv = ["-m", "agentic_rl.cli", "serve", "--port", "0", "--state-dir", str(tmp_path), "--served-model-name", "A/B"]
    with subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        shown = "".join(process.stdout.readline() for _ in range(3))
        url = re.search(r"PYTRIO_BASE_URL=(\S+)", shown)
        key = re.search(r"PYTRIO_API_KEY=(\S+)", shown)
        assert url
        assert key
        transport = httpx.HTTPTransport(retries=8)
        with httpx.Client(base_url=url[1], trust_env=False, transport=transport, timeout=30) as client:
            assert client.get("/healthz").json()["models"] == ["A/B"]
            assert client.get("/api/models").status_code == 401
            models = client.get("/api/models", headers={"X-API-Key": key[1]}).json()
            assert models["items"][0]["model_id"] == "A/B"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, -signal.SIGINT, 130)
