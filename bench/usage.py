"""What trees of processes use: processor time and memory, as Linux counts them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from tests.cli.running import descendants

TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(roots: Iterable[int]) -> float:
    """Return the seconds of these processes and all below them, with those that have ended and were waited for."""
    ticks = 0
    for root in roots:
        for pid in (root, *descendants(root)):
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(int(field) for field in fields[11:15])  # its own, and those of its ended children
    return ticks / TICK


def memory(root: int) -> list[float]:
    """Return the highest resident megabytes of a process and of each one below it, the largest first."""
    sizes = []
    for pid in (root, *descendants(root)):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    sizes.append(int(line.split()[1]) / 1024)
    return sorted(sizes, reverse=True)
