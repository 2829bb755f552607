"""What a training checks before anything is opened that costs something."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_script import run


def test_a_missing_swanlab_login_is_refused_before_the_policy_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import swanlab

    def refuse(**_: object) -> None:
        raise RuntimeError("no API key is configured")

    def opened(*_: object, **__: object) -> None:
        raise AssertionError("the policy was opened")

    monkeypatch.setattr(swanlab, "init", refuse)
    monkeypatch.setattr("agentic_rl.policy.open_policy", opened)
    flags = ["--preset", "laptop", "--run-dir", str(tmp_path), "--run-name", "r", "--swanlab-mode", "online"]
    assert run("09-AgentOPSD", flags, "train") == 2
    assert "Run `swanlab login`" in capsys.readouterr().err
    assert not (tmp_path / "r").exists(), "the name is free for the next try"
