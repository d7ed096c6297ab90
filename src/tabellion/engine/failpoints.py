"""Named places in the code where a test can make the process die, fail or stall; without a test they do nothing.

`TABELLION_FAILPOINTS="claim.post_commit:kill@3,settle.drop_ack:raise@5"` kills the process at the third pass of
the first place and raises at the fifth pass of the second. Actions: kill, raise, stop (SIGSTOP to itself).
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator

from tabellion.errors import Unreachable

NAMES = (
    "claim.pre_commit",
    "claim.post_commit",
    "claim.drop_ack",
    "handler.pre_call",
    "handler.post_call",
    "settle.pre_commit",
    "settle.post_commit",
    "settle.drop_ack",
    "renew.drop",
    "release.pre_commit",
    "migrate.mid",
    "put.mid_write",
    "put.pre_rename",
    "put.post_rename",
    "compact.pre_put",
    "compact.post_put",
    "compact.mid_remove",
    "prune.pre_commit",
    "prune.post_commit",
    "prune.mid_files",
    "prune.pre_save",
    "sla.pre_change",
    "sla.pre_commit",
    "snapshot.pre_commit",
)


class _Failpoint:
    def __init__(self, action: str, at: int) -> None:
        self.action, self.at = action, at
        self.passes: Iterator[int] = itertools.count(1)


def parse(text: str) -> dict[str, _Failpoint]:
    """The failpoints that a text names; an unknown name is an error, since it would test nothing."""
    armed: dict[str, _Failpoint] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        place, _, rest = item.partition(":")
        action, _, at = rest.partition("@")
        if place not in NAMES or action not in ("kill", "raise", "stop"):
            raise ValueError(f"unknown failpoint {item!r}; places: {', '.join(NAMES)}; actions: kill, raise, stop")
        armed[place] = _Failpoint(action, int(at or 1))
    return armed


_armed = parse(os.environ.get("TABELLION_FAILPOINTS", ""))


def arm(text: str) -> None:
    """Replaces the failpoints of this process."""
    _armed.clear()
    _armed.update(parse(text))


def failpoint(place: str) -> None:
    """Marks a place in the code; does nothing unless a test has armed it."""
    if not _armed:
        return
    armed = _armed.get(place)
    if armed is None or next(armed.passes) != armed.at:
        return
    if armed.action == "raise":
        raise Unreachable(f"failpoint {place}")
    os.kill(os.getpid(), signal.SIGKILL if armed.action == "kill" else signal.SIGSTOP)
