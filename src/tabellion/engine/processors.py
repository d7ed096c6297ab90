"""The number of processors that this process may use: a container may have fewer than its machine."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


@functools.cache
def available_processors() -> int:
    """Those of the affinity mask, limited by the quota of the control group, rounded up; at least 1."""
    return max(1, math.ceil(min(_affinity(), quota(CGROUPS, OWN))))


def quota(cgroups: Path, own: Path) -> float:
    """The processors that the control groups of this process allow, those above its own included; infinite if any."""
    limits = [math.inf]
    with contextlib.suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            folder, read = cgroups, _read_version_2
            if number != "0":  # version 1
                if "cpu" not in controllers.split(","):
                    continue
                folder, read = cgroups / controllers, _read_version_1
            group = folder / path.lstrip("/")
            for place in (group, *group.parents):
                if place.is_relative_to(folder):
                    limits.append(read(place))
    return min(limits)


def _read_version_2(folder: Path) -> float:
    with contextlib.suppress(OSError, ValueError):
        most, period = (folder / "cpu.max").read_text().split()
        return math.inf if most == "max" else int(most) / int(period)
    return math.inf


def _read_version_1(folder: Path) -> float:
    with contextlib.suppress(OSError, ValueError):
        most = int((folder / "cpu.cfs_quota_us").read_text())
        return math.inf if most < 0 else most / int((folder / "cpu.cfs_period_us").read_text())
    return math.inf


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
