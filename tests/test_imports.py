"""The house rules of `docs/architecture.md`: what may know what, and what stays out until it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "agentic_rl"

MAY_KNOW: dict[str, set[str]] = {
    "errors": set(),
    "config": {"errors"},
    "tracking": {"errors"},
    "games": {"errors", "config"},
    "dialogue": {"errors"},
    "credit": {"errors"},
    "policy": {"errors"},
    "skills": {"errors", "games"},
    "rollout": {"errors", "games", "dialogue", "policy", "skills"},
    "results": {"errors"},
    "report": {"errors", "results", "config"},
    "evaluation": {"errors", "config", "tracking", "games", "dialogue", "policy", "skills", "rollout", "results"},
    "training": {
        "errors", "config", "tracking", "games", "dialogue", "policy", "skills",
        "rollout", "credit", "results", "evaluation", "report",
    },
    "serving": {"errors", "config", "policy"},
    "cli": {"errors", "config", "games", "evaluation", "serving"},
}  # fmt: skip
"""Room → the rooms it may import. No entry names a room that names it back: no import runs up."""

HEAVY = {
    "torch", "transformers", "tokenizers", "peft", "safetensors", "textworld", "alfworld", "pytrio", "modelscope",
    "starlette", "uvicorn", "matplotlib", "swanlab", "httpx", "msgpack",
}  # fmt: skip


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative imports hide which room is meant"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def test_no_room_knows_the_one_above_it() -> None:
    breaches = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path in modules()
        if path.name != "__init__.py" or path.parent != PACKAGE
        for name, line in imports_of(path)
        if name.startswith("agentic_rl.")
        for target in [name.split(".")[1]]
        if target != room_of(path) and target not in MAY_KNOW[room_of(path)]
    ]
    assert breaches == []


def test_the_map_has_no_way_back_up() -> None:
    assert not [(a, b) for a, known in MAY_KNOW.items() for b in known if a in MAY_KNOW[b]]


def test_a_room_imports_from_outside_what_is_light() -> None:
    """Heavy libraries are imported inside the functions that use them, so that `--help` answers at once."""
    light = [path for path in modules() if room_of(path) not in {"serving"} and "policy" not in path.parts]
    breaches = []
    for path in light:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                breaches += [f"{path.relative_to(ROOT)}: {n}" for n in names if n.split(".")[0] in HEAVY]
    assert breaches == []


SCRIPTS = [
    f"{recipe}/{name}.py" for recipe in ("08-alfworld", "09-AgentOPSD") for name in ("train", "eval", "analysis")
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_loads_nothing_heavy(script: str) -> None:
    probe = (
        "import runpy, sys\n"
        f"sys.argv = [{script!r}, '--help']\n"
        "try:\n"
        f"    runpy.run_path({script!r}, run_name='__main__')\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code\n"
        "print('LOADED', *sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rsplit("LOADED", 1)[1].split())
    assert loaded & (HEAVY | {"numpy"}) == set()
    assert "--" in done.stdout
