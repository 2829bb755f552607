"""What goes wrong before the first token is bought is one line with a way out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import served

from agentic_rl.errors import BackendError, ConfigError
from agentic_rl.policy.pytrio import open_pytrio_policy, open_pytrio_sampler, service


def files(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


def test_a_missing_login_names_both_ways_out(server: served.Server, tmp_path: Path) -> None:
    trio = served.point_sdk_at(server, tmp_path)
    trio.configure(home=str(tmp_path), base_url=server.url)
    with pytest.raises(BackendError) as missing:
        open_pytrio_sampler(served.MODEL)
    assert "`trio login`" in str(missing.value)
    assert "--preset laptop" in str(missing.value)
    assert "\n" not in str(missing.value)


def test_a_refused_key_names_both_ways_out(server: served.Server, tmp_path: Path) -> None:
    served.point_sdk_at(server, tmp_path, api_key="wrong")
    with pytest.raises(BackendError, match="refused") as refused:
        open_pytrio_policy(served.MODEL, run_dir=tmp_path)
    assert "`trio login`" in str(refused.value)
    assert "--preset laptop" in str(refused.value)


def test_a_service_that_is_not_there_is_said_soon(
    tmp_path: Path, server: served.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "CONTROL_ATTEMPTS", 2)
    trio = served.point_sdk_at(server, tmp_path)
    trio.configure(base_url="http://127.0.0.1:9")
    started = time.monotonic()
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:9"):
        open_pytrio_sampler(served.MODEL)
    assert time.monotonic() - started < 60


def test_a_profile_that_cannot_be_read_is_said(tmp_path: Path, server: served.Server) -> None:
    trio = served.point_sdk_at(server, tmp_path)
    (tmp_path / ".pytrio").mkdir()
    (tmp_path / ".pytrio" / "config.toml").write_text("api_key = [broken")
    trio.configure(home=str(tmp_path), base_url=server.url)
    with pytest.raises(BackendError, match="profile"):
        open_pytrio_sampler(served.MODEL)


def test_a_profile_is_used_and_never_written(tmp_path: Path, server: served.Server) -> None:
    trio = served.point_sdk_at(server, tmp_path)
    (tmp_path / ".pytrio").mkdir()
    profile = tmp_path / ".pytrio" / "config.toml"
    profile.write_text(f'api_key = "{served.API_KEY}"\n')
    before = profile.read_bytes(), profile.stat().st_mtime_ns
    trio.configure(home=str(tmp_path), base_url=server.url)
    open_pytrio_sampler(served.MODEL)
    assert (profile.read_bytes(), profile.stat().st_mtime_ns) == before
    assert files(tmp_path) == [".pytrio/config.toml"], "neither telemetry nor notices are left there"


def test_without_a_profile_none_is_made(logged_in: Path) -> None:
    open_pytrio_sampler(served.MODEL)
    assert files(logged_in) == []


def test_an_unknown_model_is_said_with_those_there_are(logged_in: Path) -> None:
    with pytest.raises(ConfigError, match=f"it offers: {served.MODEL}.*--base-model"):
        open_pytrio_sampler("Qwen/Qwen9")


@pytest.mark.parametrize("rank", [1, 3, 65, 128])
def test_a_rank_that_pytrio_does_not_take_is_said_before_anything_is_asked(rank: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--lora-rank \d+: PyTRIO takes 4…64"):
        open_pytrio_policy(served.MODEL, run_dir=tmp_path, lora_rank=rank)


@pytest.mark.parametrize(
    ("asked", "flag"),
    [
        ({"max_trajectory_tokens": 4097}, "Lower --max-trajectory-tokens by 1 or more"),
        ({"max_trajectory_tokens": 4096}, None),
    ],
)
def test_limits_are_asked_for_and_compared(tmp_path: Path, asked: dict[str, Any], flag: str | None) -> None:
    with served.serving(tmp_path / "state", max_sequence_tokens=4096) as server:
        served.point_sdk_at(server, tmp_path / "home")
        if flag:
            with pytest.raises(ConfigError, match=flag):
                open_pytrio_policy(served.MODEL, run_dir=tmp_path, lora_rank=8, **asked)
        else:
            policy = open_pytrio_policy(served.MODEL, run_dir=tmp_path, lora_rank=8, **asked)
            assert policy.max_sequence_tokens == 4096
            del policy
