"""A recipe's scripts, loaded as modules: their folder's name is no Python name."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from agentic_rl.config import run_main

ROOT = Path(__file__).resolve().parents[1]


def load(recipe: str, script: str = "eval") -> ModuleType:
    name = f"{script}_{recipe[:2]}"
    spec = importlib.util.spec_from_file_location(name, ROOT / recipe / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(recipe: str, argv: Sequence[str], script: str = "eval") -> int:
    """The exit code of `<recipe>/<script>.py argv`."""
    return run_main(load(recipe, script).main, argv)
