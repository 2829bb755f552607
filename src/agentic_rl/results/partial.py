"""An evaluation under way: finished games are on disk at once, and an interrupted one goes on where it stopped."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from agentic_rl.errors import ResultsError
from agentic_rl.results.files import json_line, json_lines, partial_path, write_records
from agentic_rl.results.panel import panel_hash
from agentic_rl.results.records import Summary, TrajectoryRecord


class PartialResults:
    """The file `<output>.partial`: a line with the settings, then one record for each finished game.

    A partial of the same settings is gone on with; one of other settings is refused, or replaced if `overwrite`.

    Parameters
    ----------
    output
        Where the finished file goes. If it exists, `overwrite` must be true; it is replaced only at the end.
    settings
        Everything that could change a game's result, as JSON values.
    panel
        The ids of the games to play. Two evaluations whose settings and panel are equal may share finished games;
        others never do.

    Raises
    ------
    ResultsError
        The output exists, the partial is of other settings or damaged, or another process is writing it.
    """

    def __init__(
        self, output: Path, settings: Mapping[str, Any], panel: Iterable[str], *, overwrite: bool = False
    ) -> None:
        self.output = output
        self.path = partial_path(output)
        self.settings = dict(settings)
        self.panel = frozenset(panel)
        self.records: dict[str, TrajectoryRecord] = {}
        refuse_existing(output, overwrite=overwrite)
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[str] = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise ResultsError(f"{self.path} cannot be written: {error.strerror}") from error
        try:
            _lock(self._file, self.path)
            self._go_on_or_begin(overwrite=overwrite)
        except BaseException:
            self._file.close()
            raise

    @property
    def missing(self) -> frozenset[str]:
        """The ids of the games that are still to be played."""
        return self.panel - self.records.keys()

    def add(self, record: TrajectoryRecord) -> None:
        """Keep a finished game. When this returns it is on disk."""
        if record.game_id not in self.panel:
            raise ValueError(f"{record.game_id} is not a game of this evaluation")
        self._write(record.to_json())
        self.records[record.game_id] = record

    def finish(self, summary: Summary) -> None:
        """Write the finished file and remove the partial one. The order in which games ended leaves no trace."""
        if self.missing:
            raise ValueError(f"{len(self.missing)} games are still to be played")
        write_records(self.output, list(self.records.values()), summary)
        self._file.close()
        self.path.unlink()

    def close(self) -> None:
        """Stop here; what is on disk stays, unless there is nothing worth going on with."""
        if self._file.closed:
            return
        self._file.close()
        if not self.records:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _go_on_or_begin(self, *, overwrite: bool) -> None:
        lines = list(json_lines(self.path, torn_end=True))
        ours = {"type": "partial", "panel": panel_hash(self.panel), "settings": self.settings}
        if lines:
            (where, theirs), *rest = lines
            if theirs.get("type") != "partial" or not isinstance(theirs.get("settings"), dict):
                raise ResultsError(f"{where}: not the beginning of an unfinished evaluation", hint="Remove the file.")
            if theirs == ours:
                found = [TrajectoryRecord.from_json(line, where) for where, line in rest]
                self.records = {record.game_id: record for record in found}
                self._file.truncate(_whole_lines(self.path))
                return
            if not overwrite:
                raise ResultsError(
                    f"{self.path} holds unfinished games of other settings ({_difference(theirs, ours)})",
                    hint="Run that evaluation to its end, choose another --output, or add --overwrite-output.",
                )
        self._file.truncate(0)
        self._write(ours)

    def _write(self, value: dict[str, Any]) -> None:
        try:
            self._file.write(json_line(value))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ResultsError(f"{self.path} cannot be written: {error.strerror}") from error


def refuse_existing(output: Path, *, overwrite: bool) -> None:
    """Raise if a finished file is there and may not be replaced, or if `output` cannot be written."""
    if output.is_dir():
        raise ResultsError(f"--output {output} is a folder", hint="Name a file in it, ending in .jsonl.")
    if output.exists() and not overwrite:
        raise ResultsError(f"{output} exists", hint="Add --overwrite-output to replace it, or choose another --output.")
    folder = next(parent for parent in output.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ResultsError(f"--output {output} cannot be written: {folder} is not a folder that takes new files")


def _whole_lines(path: Path) -> int:
    """The bytes up to the last line feed: what follows was torn by the death of the process that wrote it."""
    return path.read_bytes().rfind(b"\n") + 1


def _difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    there, here = ({"panel": header.get("panel"), **header["settings"]} for header in (theirs, ours))
    names = sorted(name for name in there.keys() | here.keys() if there.get(name) != here.get(name))
    return ", ".join(f"{name} {there.get(name)!r:.60} there, {here.get(name)!r:.60} here" for name in names[:3])


def _lock(file: IO[str], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ResultsError(
            f"another process is writing {path}", hint="Wait for it or choose another --output."
        ) from None
