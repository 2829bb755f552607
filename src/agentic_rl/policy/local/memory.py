"""How much memory this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def usable_memory(root: Path = Path("/")) -> int:
    """Bytes: all of the machine's, or less where a container or a service is allowed less.

    A process that goes beyond its control group's limit is killed without a word, whatever the machine still has
    (Linux kernel, admin-guide: cgroup-v2.rst, `memory.max`; cgroup-v1/memory.rst, `memory.limit_in_bytes`).

    Parameters
    ----------
    root
        Where `proc` and `sys` are.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    """The limits of every control group that holds this process; a parent's holds for its children."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, file = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, file = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside a container the path may be one of outside, which is not there; the mount itself is the group then.
        group = mount / path.strip("/")
        for folder in (group, *group.parents):
            if (said := _read(folder / file).strip()).isdigit():  # "max" is no limit
                yield int(said)
            if folder == mount:
                break


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
