"""Backends are chosen by name, and what is missing is said."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentic_rl.errors import ConfigError, MissingExtraError
from agentic_rl.policy import open_policy, open_sampler


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(ConfigError, match="local, pytrio"):
        open_policy("abacus", "builtin")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="local, pytrio"):
        open_sampler("abacus", "builtin")  # type: ignore[arg-type]


def test_the_protocols_import_neither_torch_nor_the_sdk() -> None:
    code = (
        "import sys, agentic_rl.policy, agentic_rl.policy.local; "
        "print(sorted({'torch', 'transformers', 'peft', 'pytrio'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("agentic_rl.policy.local")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"\[local\]"):
        open_policy("local", "builtin", run_dir="anywhere")
