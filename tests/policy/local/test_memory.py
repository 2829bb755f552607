"""A container's limit is the memory that there is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentic_rl.policy.local.memory import usable_memory

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
V1 = "9:name=systemd:/\n4:cpu,cpuacct:/\n3:memory:/docker/ab\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "limits", "usable"),
    [
        ("0::/\n", {"memory.max": "4194304"}, 4194304),
        ("0::/\n", {"memory.max": "max"}, MACHINE),
        ("0::/user.slice/job\n", {"user.slice/memory.max": "8192", "user.slice/job/memory.max": "max"}, 8192),
        ("0::/user.slice/job\n", {"user.slice/memory.max": "8192", "user.slice/job/memory.max": "4096"}, 4096),
        (V1, {"memory/docker/ab/memory.limit_in_bytes": "4096"}, 4096),
        (V1, {"memory/memory.limit_in_bytes": "8192", "cpu/memory.limit_in_bytes": "1"}, 8192),
        (V1, {"memory/memory.limit_in_bytes": "9223372036854771712"}, MACHINE),
        ("0::/../..\n", {"memory.max": "8192"}, 8192),
        ("0::/\n", {}, MACHINE),
        (None, {}, MACHINE),
    ],
)
def test_the_smallest_limit_that_holds_here_counts(
    groups: str | None, limits: dict[str, str], usable: int, tmp_path: Path
) -> None:
    if groups is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(groups)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    for name, limit in limits.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit + "\n")
    assert usable_memory(tmp_path) == usable


def test_on_this_machine_it_is_some_but_not_more_than_there_is() -> None:
    assert 0 < usable_memory() <= MACHINE
