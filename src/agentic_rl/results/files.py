"""Evaluation files, read and written whole."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentic_rl.errors import ResultsError
from agentic_rl.results.panel import panel_hash
from agentic_rl.results.records import Summary, TrajectoryRecord


@dataclass(frozen=True, slots=True)
class Results:
    """One evaluation file: its games sorted by id, and its summary."""

    path: Path
    records: tuple[TrajectoryRecord, ...] = field(repr=False)
    summary: Summary

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits played, in alphabetical order (seen before unseen)."""
        return tuple(sorted({record.evaluation_split for record in self.records}))

    @property
    def panel(self) -> str:
        """The hash of the games in the file."""
        return panel_hash(record.game_id for record in self.records)


def write_records(path: Path, records: Sequence[TrajectoryRecord], summary: Summary) -> None:
    """Write a whole file at once: it holds everything or is not there. The records are sorted by game id."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    ordered = sorted(records, key=lambda record: (record.game_id, record.group_index))
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.writelines(json_line(record.to_json()) for record in ordered)
            file.write(json_line(summary.to_json()))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read_results(path: Path) -> Results:
    """Read one evaluation file.

    Raises
    ------
    ResultsError
        No file, a damaged line (named by its number), no summary, no games, a game twice, or fewer games than the
        summary counts.
    """
    if not path.is_file():
        if partial_path(path).is_file():
            raise ResultsError(f"{path} is not finished yet", hint="Run its eval.py command again to go on with it.")
        raise ResultsError(f"{path} does not exist", hint=f"Make it with eval.py --output {path}")
    records: list[TrajectoryRecord] = []
    summary: Summary | None = None
    for where, line in json_lines(path):
        match line.get("type"):
            case "trajectory":
                records.append(TrajectoryRecord.from_json(line, where))
            case "summary" if summary is None:
                summary = Summary.from_json(line, where)
            case "summary":
                raise ResultsError(f"{where}: a second summary", hint="The file is two evaluations glued together.")
            case kind:
                raise ResultsError(f"{where}: the type should be 'trajectory' or 'summary', not {kind!r}")
    if summary is None:
        raise ResultsError(f"{path} has no summary, so its evaluation was cut short", hint="Run eval.py again.")
    _check_whole(path, records, summary)
    return Results(path, tuple(sorted(records, key=lambda record: record.game_id)), summary)


def partial_path(path: Path) -> Path:
    """Where an evaluation keeps its finished games until `path` can be written."""
    return path.with_name(path.name + ".partial")


def json_line(value: dict[str, Any]) -> str:
    """One line of JSON in plain ASCII: a model may write half a surrogate pair, which UTF-8 cannot hold."""
    return json.dumps(value, allow_nan=False) + "\n"


def json_lines(path: Path, *, torn_end: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON Lines file, each with the place that an error names.

    `torn_end` leaves out a last line without its line feed: a process died while it wrote it.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}") from error
    lines = text.split(b"\n")
    last = lines.pop()
    if last and not torn_end:
        lines.append(last)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ResultsError(f"{where}: not JSON ({error})", hint="The file is damaged; evaluate again.") from error
        if not isinstance(value, dict):
            raise ResultsError(f"{where}: a JSON object was expected, not {type(value).__name__}")
        yield where, value


def _check_whole(path: Path, records: Sequence[TrajectoryRecord], summary: Summary) -> None:
    if not records:
        raise ResultsError(f"{path} holds no games")
    game, times = Counter(record.game_id for record in records).most_common(1)[0]
    if times > 1:
        raise ResultsError(f"{path} holds the game {game} {times} times")
    found = Counter(record.evaluation_split for record in records)
    for name, counted in summary.metrics.items():
        split = name.removeprefix("eval/").removesuffix("/games")
        if name == f"eval/{split}/games" and counted != found[split]:
            raise ResultsError(
                f"{path} holds {found[split]} games of {split}, and its summary counts {counted:g}",
                hint="Lines were lost or added; evaluate again.",
            )
