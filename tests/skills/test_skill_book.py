"""The skill book covers all six task types or says in one line what is missing, before anything is sampled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentic_rl.errors import SkillsError
from agentic_rl.games.interface import TASK_TYPES
from agentic_rl.skills import SkillBook, builtin_skills_dir


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(builtin_skills_dir(), tmp_path / "skills"))


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "skill_mapping.json"
    mapping = json.loads(path.read_text())
    change(mapping)
    path.write_text(json.dumps(mapping))


def test_every_task_type_gets_the_general_text_and_then_its_own() -> None:
    folder = builtin_skills_dir()
    book = SkillBook.load(folder)
    general = (folder / "general.md").read_text().strip()
    own = [book.for_task(task_type).removeprefix(f"{general}\n\n") for task_type in TASK_TYPES]
    assert all(book.for_task(task_type).startswith(general) for task_type in TASK_TYPES)
    assert len(set(own)) == len(TASK_TYPES)
    assert own[0] == (folder / "pick_and_place.md").read_text().strip()


def test_an_unknown_task_type_is_an_error_that_names_it() -> None:
    with pytest.raises(SkillsError, match="pick_three_objects"):
        SkillBook.load(builtin_skills_dir()).for_task("pick_three_objects")


def test_the_published_short_name_of_pick_and_place_simple_counts(folder: Path) -> None:
    edit(folder, lambda m: m["task_to_skill"].update(pick_and_place=m["task_to_skill"].pop("pick_and_place_simple")))
    assert SkillBook.load(folder).texts == SkillBook.load(builtin_skills_dir()).texts


def test_a_folder_without_general_skill_and_with_empty_texts_gives_no_text_at_all(folder: Path) -> None:
    edit(folder, lambda m: m["skill_files"].pop("general"))
    (folder / "clean.md").write_text("\n")
    book = SkillBook.load(folder)
    assert book.for_task("pick_clean_then_place_in_recep") == ""
    assert book.for_task("pick_heat_then_place_in_recep") == (folder / "heat.md").read_text().strip()


BREAKAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (shutil.rmtree, "no skills folder"),
    "no mapping": (lambda f: (f / "skill_mapping.json").unlink(), "holds no skill_mapping.json"),
    "bad JSON": (lambda f: (f / "skill_mapping.json").write_text("{"), "cannot be read as JSON"),
    "not a mapping": (lambda f: (f / "skill_mapping.json").write_text("[]"), "skill_files must map"),
    "names that are no strings": (lambda f: edit(f, lambda m: m["task_to_skill"].update(x=1)), "task_to_skill must"),
    "a task type missing": (
        lambda f: edit(f, lambda m: m["task_to_skill"].pop("pick_two_obj_and_place")),
        "pick_two_obj_and_place has no skill",
    ),
    "a skill without a file": (lambda f: edit(f, lambda m: m["skill_files"].pop("heat")), "'heat', which has no file"),
    "a file missing": (lambda f: (f / "cool.md").unlink(), "skill 'cool'"),
    "a file in another encoding": (lambda f: (f / "cool.md").write_bytes(b"\xff\xfe\x00"), "in UTF-8"),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_folder_that_does_not_cover_the_tasks_is_refused_in_one_line(folder: Path, breakage: str) -> None:
    break_it, message = BREAKAGES[breakage]
    break_it(folder)
    with pytest.raises(SkillsError, match=message) as caught:
        SkillBook.load(folder)
    assert "\n" not in str(caught.value)
