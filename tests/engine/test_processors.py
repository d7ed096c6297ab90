"""The processors of a container: fewer than its machine has."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from tabellion.engine.processors import available_processors, quota


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2.0),
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("0::/pods/one\n", {"cpu.max": "max 100000", "pods/cpu.max": "150000 100000", "pods/one/cpu.max": "max 1"},
         1.5),
        ("4:memory:/x\n3:cpu,cpuacct:/x\n", {"cpu,cpuacct/x/cpu.cfs_quota_us": "50000",
                                             "cpu,cpuacct/x/cpu.cfs_period_us": "100000"}, 0.5),
        ("3:cpu,cpuacct:/\n", {"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "1"}, math.inf),
        ("nonsense", {"cpu.max": "x"}, math.inf),
        ("0::/\n", {}, math.inf),
    ],
)  # fmt: skip
def test_the_quota_of_control_groups(tmp_path: Path, own: str, files: dict[str, str], expected: float) -> None:
    """Of version 2, and of version 1; the smallest of a group and those above it."""
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text)
    (tmp_path / "own").write_text(own)
    assert quota(tmp_path / "groups", tmp_path / "own") == expected


def test_there_is_always_one() -> None:
    """And never more than the machine has."""
    assert 1 <= available_processors() <= (os.cpu_count() or 1)
