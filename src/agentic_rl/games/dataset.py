"""Games on disk: which files a dataset holds, what they are, and in which order they are played."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_rl.errors import DatasetError, GameFileError
from agentic_rl.games.engines import open_game
from agentic_rl.games.interface import TASK_TYPES, Episode, GameEntry
from agentic_rl.games.problem import read_record, read_text
from agentic_rl.games.simulator import Game, load_game

RELEASE = "json_2.1.1"
SPLITS = ("train", "valid_seen", "valid_unseen")
GAME_FILE = "game.tw-pddl"
LEFT_OUT = ("movable", "Sliced")
"""Tasks whose path holds one of these are not supported by the text games."""

_TAIL = 4096


@dataclass(frozen=True, slots=True)
class GameFile:
    """One playable game of a dataset; a `GameEntry`."""

    path: Path
    split: str
    task_type: str

    @property
    def game_id(self) -> str:
        """`<split>:<task>/<trial>`."""
        *_, task, trial, _ = self.path.parts
        return f"{self.split}:{task}/{trial}"

    @property
    def location(self) -> str:
        return str(self.path)

    def load(self) -> Game:
        """The game on the simulator, ready for any number of episodes."""
        return load_game(self.path)

    def open(self, engine: str = "simulator") -> Episode:
        """A new play."""
        return open_game(self.path, engine)


def discover(data_root: Path, splits: Sequence[str] = SPLITS) -> list[GameFile]:
    """All playable games of some splits, sorted by path.

    Parameters
    ----------
    data_root
        The folder above `json_2.1.1`, `json_2.1.1` itself, or one split.

    Raises
    ------
    DatasetError
        The dataset is not there, has no games, or has files that cannot be read or are cut off.
    """
    games: list[GameFile] = []
    broken: list[tuple[Path, str]] = []
    for split in dict.fromkeys(splits):
        folder = _split_folder(data_root, split)
        paths = sorted(folder.glob(f"*/*/{GAME_FILE}"), key=lambda path: path.as_posix())
        found = 0
        for path in paths:
            if any(word in f"{path.parts[-3]}/{path.parts[-2]}" for word in LEFT_OUT):
                continue
            try:
                solvable = _is_solvable(path)
                task_type = _task_type(path)
            except (OSError, ValueError, GameFileError) as error:
                broken.append((path, str(error)))
                continue
            found += 1
            if solvable and task_type in TASK_TYPES:
                games.append(GameFile(path, split, task_type))
        if not found and not broken:
            raise DatasetError(
                f"{folder} holds no {GAME_FILE}: the download is not complete", hint=_download(data_root)
            )
    if broken:
        path, fault = broken[0]
        count = "1 game file" if len(broken) == 1 else f"{len(broken)} game files"
        fault = fault if str(path) in fault else f"{path}: {fault}"
        raise DatasetError(f"{count} under {data_root} cannot be read: {fault}", hint=_download(data_root))
    return sorted(games, key=lambda game: game.path.as_posix())


def shuffled[E: GameEntry](entries: Iterable[E], seed: int) -> list[E]:
    """The order of training: the same for the same games and seed, on any machine."""
    order = list(entries)
    random.Random(seed).shuffle(order)
    return order


def count_by_split_and_type(entries: Iterable[GameEntry]) -> dict[str, dict[str, int]]:
    """Number of games by split and, in the fixed order of the six, by task type."""
    counts = Counter((entry.split, entry.task_type) for entry in entries)
    splits = dict.fromkeys(split for split, _ in counts)
    return {split: {task: counts[split, task] for task in TASK_TYPES if counts[split, task]} for split in splits}


def _split_folder(data_root: Path, split: str) -> Path:
    if data_root.name == split and not (data_root / split).is_dir():
        candidates = [data_root]
    else:
        candidates = [data_root / RELEASE / split, data_root / split]
    for folder in candidates:
        if folder.is_dir():
            return folder
    if not data_root.exists():
        raise DatasetError(f"there is no dataset at {data_root}", hint=_download(data_root))
    raise DatasetError(f"the dataset at {data_root} has no split {split!r}", hint=_download(data_root))


def _download(data_root: Path) -> str:
    above = data_root
    if above.name in (*SPLITS, "valid_train") and above.parent.name == RELEASE:
        above = above.parent
    if above.name == RELEASE:
        above = above.parent
    return f'Download it: uv run --extra alfworld alfworld-download --data-dir "{above}"'


def _is_solvable(path: Path) -> bool:
    """Read the flag from the end of the file, where it stands; parsing thousands of whole files would take seconds."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL))
        tail = file.read().rstrip()
    if not tail:
        raise ValueError("the file is empty")
    if not tail.endswith(b"}"):
        raise ValueError("the file is cut off")
    for spelling, value in ((b'"solvable": true', True), (b'"solvable": false', False)):
        if spelling in tail:
            return value
    return read_record(read_text(path), str(path)).get("solvable") is True


def _task_type(path: Path) -> str:
    """The folder's name begins with it; `traj_data.json` beside the game says it too, where that file exists."""
    name = path.parts[-3].partition("-")[0]
    described = path.with_name("traj_data.json")
    if name in TASK_TYPES or not described.is_file():
        return name
    return str(json.loads(described.read_text(encoding="utf-8")).get("task_type", name))


def game_at(path: Path) -> GameFile:
    """One game file by its path alone, of any split."""
    if not path.is_file():
        raise DatasetError(f"there is no game file {path}")
    whole = path.resolve()
    return GameFile(path=whole, split=whole.parts[-4], task_type=_task_type(whole))
