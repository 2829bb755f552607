"""The project's own texts: short, and true to the commands that the games really have."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from agentic_rl.games.interface import TASK_TYPES
from agentic_rl.skills import SkillBook, builtin_skills_dir

TEXTS = {path.stem: path.read_text() for path in sorted(builtin_skills_dir().glob("*.md"))}


def quoted_commands(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def patterns_of(grammar: str) -> list[re.Pattern[str]]:
    """What the grammar's command templates accept; a name is O, R, or a word with a number."""
    templates = re.findall(r'action (\w+) \{\s*template :: "([^"]*)"', grammar)
    assert len(templates) > 10
    patterns = []
    for action, template in templates:
        if "ReceptacleObject" in action:
            continue  # moving bowls with what lies in them: templates without an operator in the games' domain
        spelled = re.split(r"\[?\{[^}]*\}\]?", template)
        patterns.append(re.compile(r"(?:O|R|[a-z]+ \d+)".join(map(re.escape, spelled))))
    return patterns


@pytest.fixture(scope="module")
def installed_patterns() -> list[re.Pattern[str]]:
    pytest.importorskip("alfworld")
    return patterns_of((files("alfworld") / "data" / "alfred.twl2").read_text())


def test_texts_are_short() -> None:
    assert set(TEXTS) == set(json.loads((builtin_skills_dir() / "skill_mapping.json").read_text())["skill_files"])
    for name, text in TEXTS.items():
        assert len(text.split()) <= (80 if name == "general" else 60), name


@pytest.mark.parametrize("name", TEXTS)
def test_every_quoted_command_is_one_of_the_installed_grammar(
    name: str, installed_patterns: list[re.Pattern[str]]
) -> None:
    commands = quoted_commands(TEXTS[name])
    assert commands
    for command in commands:
        assert any(pattern.fullmatch(command) for pattern in installed_patterns), command


def test_a_command_of_other_versions_would_be_caught(installed_patterns: list[re.Pattern[str]]) -> None:
    for command in ("put O in R", "put O in/on R", "turn on desklamp 1", "toggle O", "take O", "goto R"):
        assert not any(pattern.fullmatch(command) for pattern in installed_patterns), command


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_task_s_skill_names_every_command_that_solves_it(task_type: str, sample_root: Path) -> None:
    quoted = {
        command.split()[0] for command in quoted_commands(SkillBook.load(builtin_skills_dir()).for_task(task_type))
    }
    games = sorted(sample_root.glob(f"**/{task_type}-*/*/game.tw-pddl"))
    assert games
    for game in games:
        needed = {command.split()[0] for command in json.loads(game.read_text())["walkthrough"]}
        assert needed <= quoted
