"""Which games a dataset holds, in which order, and what is said when it is not whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agentic_rl.errors import DatasetError
from agentic_rl.games import TASK_TYPES, GameFile, count_by_split_and_type, discover, shuffled, task_of

GAME = '{"pddl_domain": "", "grammar": "", "pddl_problem": "", "solvable": true, "walkthrough": []}'


def write_game(root: Path, split: str, task: str, trial: str = "trial_1", text: str = GAME) -> Path:
    path = root / "json_2.1.1" / split / task / trial / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def ids(games: list[GameFile]) -> list[str]:
    return [game.game_id for game in games]


MUG = "pick_and_place_simple-Mug-None-Desk-301"
APPLE = "pick_heat_then_place_in_recep-Apple-None-Fridge-1"


def test_the_real_sample_by_split_and_type(sample_root: Path) -> None:
    counts = count_by_split_and_type(discover(sample_root))
    assert counts == {
        "train": dict.fromkeys(TASK_TYPES, 2),
        "valid_seen": dict.fromkeys(TASK_TYPES, 1),
        "valid_unseen": dict.fromkeys(TASK_TYPES, 1),
    }


@pytest.mark.slow
def test_the_public_data_has_the_published_numbers_of_games(full_root: Path) -> None:
    counts = count_by_split_and_type(discover(full_root))
    assert {split: sum(by_type.values()) for split, by_type in counts.items()} == {
        "train": 3_553,
        "valid_seen": 140,
        "valid_unseen": 134,
    }


def test_every_game_of_the_sample_opens_and_names_its_task(sample_root: Path) -> None:
    for game in discover(sample_root):
        opening = game.open().reset().observation
        assert opening.endswith("Your task is to: " + task_of(opening))
        assert task_of(opening)
        assert game.location == str(game.path)


def test_the_root_may_be_the_folder_above_or_the_release_or_one_split(sample_root: Path) -> None:
    above = ids(discover(sample_root, ["valid_seen"]))
    assert len(above) == 6
    assert ids(discover(sample_root / "json_2.1.1", ["valid_seen"])) == above
    assert ids(discover(sample_root / "json_2.1.1" / "valid_seen", ["valid_seen"])) == above


def test_ids_are_unique_and_sorted_by_path_whatever_the_order_of_the_splits(sample_root: Path) -> None:
    games = discover(sample_root, ["valid_unseen", "train", "valid_seen", "train"])
    assert ids(games) == ids(discover(sample_root))
    assert len(set(ids(games))) == len(games) == 24
    assert [game.location for game in games] == sorted(game.location for game in games)
    split, _, rest = games[0].game_id.partition(":")
    assert games[0].path.parent == sample_root / "json_2.1.1" / split / rest


def test_left_out_are_movable_sliced_unsolvable_and_foreign_tasks(tmp_path: Path) -> None:
    write_game(tmp_path, "train", MUG)
    write_game(tmp_path, "train", "pick_and_place_with_movable_recep-Mug-Bowl-Desk-301")
    write_game(tmp_path, "train", "pick_two_obj_and_place-AppleSliced-None-Fridge-1")
    write_game(tmp_path, "train", "dance_with_chair-Chair-None-Desk-1")
    write_game(tmp_path, "train", APPLE, text=GAME.replace("true", "false"))
    write_game(tmp_path, "train", APPLE, "trial_2", GAME.replace('"solvable": true, ', ""))
    write_game(tmp_path, "train", APPLE, "trial_3", GAME.replace('"solvable": true', '"solvable":\n true'))
    assert ids(discover(tmp_path, ["train"])) == [f"train:{MUG}/trial_1", f"train:{APPLE}/trial_3"]


def test_only_the_path_below_the_root_decides(tmp_path: Path) -> None:
    root = tmp_path / "movable Sliced"
    write_game(root, "train", MUG)
    assert len(discover(root, ["train"])) == 1


def test_the_task_type_may_stand_beside_the_game(tmp_path: Path) -> None:
    path = write_game(tmp_path, "train", "my_task-7")
    path.with_name("traj_data.json").write_text(json.dumps({"task_type": "look_at_obj_in_light"}))
    assert [game.task_type for game in discover(tmp_path, ["train"])] == ["look_at_obj_in_light"]


def test_shuffling_hangs_on_the_seed_alone(sample_root: Path) -> None:
    games = discover(sample_root)
    assert shuffled(games, 1) == shuffled(tuple(games), 1)
    assert shuffled(games, 1) != shuffled(games, 2)
    assert sorted(ids(shuffled(games, 1))) == sorted(ids(games))


def complaint(root: Path, *splits: str) -> str:
    with pytest.raises(DatasetError) as caught:
        discover(root, splits or ("train",))
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_a_missing_dataset_names_the_command_that_downloads_it_there(tmp_path: Path) -> None:
    root = tmp_path / "datasets" / "alfworld"
    line = complaint(root)
    assert line.startswith(f"there is no dataset at {root}")
    assert line.endswith(f'uv run --extra alfworld alfworld-download --data-dir "{root}"')
    for below in ("json_2.1.1", "json_2.1.1/train"):
        assert complaint(root / below).endswith(f'--data-dir "{root}"')


def test_a_missing_split(tmp_path: Path) -> None:
    write_game(tmp_path, "train", MUG)
    assert "has no split 'valid_seen'" in complaint(tmp_path, "train", "valid_seen")
    assert "has no split 'valid_seen'" in complaint(tmp_path / "json_2.1.1" / "train", "valid_seen")


def test_a_download_that_stopped_before_the_games(tmp_path: Path) -> None:
    path = write_game(tmp_path, "train", MUG)
    shutil.move(path, path.with_name("traj_data.json"))
    line = complaint(tmp_path)
    assert "holds no game.tw-pddl: the download is not complete" in line
    assert "alfworld-download" in line


@pytest.mark.parametrize(
    ("text", "fault"),
    [("", "the file is empty"), (GAME[:-5], "the file is cut off"), (GAME[:20] + "}", "not whole JSON")],
)
def test_unreadable_files_are_counted_and_the_first_is_named(tmp_path: Path, text: str, fault: str) -> None:
    write_game(tmp_path, "train", MUG)
    first = write_game(tmp_path, "train", MUG, "trial_2", text)
    write_game(tmp_path, "train", MUG, "trial_3", "")
    line = complaint(tmp_path)
    assert line.startswith(f"2 game files under {tmp_path} cannot be read: {first}: {fault}")
    assert "alfworld-download" in line
