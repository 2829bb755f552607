"""A folder of skill texts, read whole and checked before anything is sampled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentic_rl.errors import SkillsError
from agentic_rl.games.interface import TASK_TYPES

MAPPING_FILE = "skill_mapping.json"
_ALIASES = {"pick_and_place_simple": "pick_and_place"}  # folders that go by the published names say it the short way


def builtin_skills_dir() -> Path:
    """The project's own texts, which ship with the package."""
    return Path(__file__).parent / "texts"


@dataclass(frozen=True, slots=True)
class SkillBook:
    """What the teacher is told, by task type.

    Attributes
    ----------
    folder
        Where the texts come from.
    texts
        Task type → the general skills and the task's own, ready to stand in front of a system prompt.
    """

    folder: Path
    texts: Mapping[str, str] = field(repr=False)

    @classmethod
    def load(cls, folder: Path) -> SkillBook:
        """Read `skill_mapping.json` and the Markdown files it names.

        The mapping holds `skill_files` (skill → file, relative to the folder) and `task_to_skill` (task type →
        skill). Skills that no task type names are general: every task gets them, in front, in the mapping's order.

        Raises
        ------
        SkillsError
            No such folder, a mapping that cannot be read, a task type without a skill, a file that is missing.
        """
        files, skills = _mapping(folder)
        task_skill = {task_type: _skill_of(task_type, skills, folder) for task_type in TASK_TYPES}
        for task_type, skill in task_skill.items():
            if skill not in files:
                raise SkillsError(
                    f"{folder / MAPPING_FILE}: task type {task_type} wants skill {skill!r}, which has no file",
                    hint="Name its file under skill_files.",
                )
        read = {skill: _read(folder, skill, file) for skill, file in files.items()}
        named = set(skills.values())
        general = [text for skill, text in read.items() if skill not in named]
        return cls(
            folder=folder,
            texts={task: "\n\n".join(filter(None, [*general, read[skill]])) for task, skill in task_skill.items()},
        )

    def for_task(self, task_type: str) -> str:
        """General and task-specific text; empty if the texts are. An unknown task type is a `SkillsError`."""
        try:
            return self.texts[task_type]
        except KeyError:
            known = ", ".join(self.texts)
            raise SkillsError(f"no skill for task type {task_type!r}", hint=f"Known are {known}.") from None


def _mapping(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    path = folder / MAPPING_FILE
    if not folder.is_dir():
        raise SkillsError(f"no skills folder at {folder}", hint="Check --skills-dir.")
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SkillsError(
            f"{folder} holds no {MAPPING_FILE}", hint="It maps skills to files and task types to skills."
        ) from None
    except (OSError, ValueError) as error:
        raise SkillsError(f"{path} cannot be read as JSON: {error}") from error
    return _table(content, "skill_files", path), _table(content, "task_to_skill", path)


def _table(content: Any, name: str, path: Path) -> dict[str, str]:
    table = content.get(name) if isinstance(content, dict) else None
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise SkillsError(f"{path}: {name} must map names to names", hint=f'For example "{name}": {{"clean": "…"}}.')
    return table


def _skill_of(task_type: str, skills: Mapping[str, str], folder: Path) -> str:
    for name in (task_type, _ALIASES.get(task_type, task_type)):
        if name in skills:
            return skills[name]
    raise SkillsError(
        f"{folder / MAPPING_FILE}: task type {task_type} has no skill", hint="Add it under task_to_skill."
    )


def _read(folder: Path, skill: str, file: str) -> str:
    try:
        return (folder / file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise SkillsError(
            f"skill {skill!r}: {folder / file} cannot be read ({type(error).__name__})",
            hint="Every file under skill_files must be there, in UTF-8.",
        ) from error
