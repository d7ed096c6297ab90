"""The request log: one JSON line per request, no content and no keys."""

from __future__ import annotations

import json
import time
from pathlib import Path

LONGEST_MODEL = 200


class RequestRecord:
    """One request, from its arrival to its answer."""

    __slots__ = ("knob", "model", "protocol", "started", "status", "time", "tokens")

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.time = time.time()
        self.started = time.perf_counter()
        self.model = ""
        self.status = 0  #: 0 is a request that never gets an answer
        self.tokens = 0
        self.knob = ""  #: the knob that applied to it

    def line(self) -> str:
        """The entry as JSON."""
        return json.dumps(
            {
                "time": round(self.time, 6),
                "protocol": self.protocol,
                "model": self.model[:LONGEST_MODEL],
                "status": self.status,
                "seconds": round(time.perf_counter() - self.started, 6),
                "tokens": self.tokens,
                "knob": self.knob,
            }
        )


class RequestLog:
    """A file with a line for each request, written at once; without a path nothing is logged."""

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("ab", buffering=0) if path else None

    def write(self, entry: RequestRecord) -> None:
        """Writes an entry."""
        if self._file is not None:
            self._file.write(entry.line().encode() + b"\n")

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
