"""How many calls had passed by which time: a short history that fits into a gate's row."""

from __future__ import annotations

FINE = 0.1  # seconds between two entries of the recent past
RECENT = 3.0  # seconds that are kept at this resolution: slots are handed out up to a second ahead and may become void
MOST = 120  # entries


class PassedCalls:
    """Entries of a time and the number of calls until then; between two entries calls count as evenly spaced."""

    def __init__(self, entries: list[list[float]]) -> None:
        self.entries = entries

    @property
    def since(self) -> float:
        """When the history begins."""
        return self.entries[0][0]

    def add(self, at: float, window: float) -> None:
        """Adds a call; `window` seconds are kept, the older part of them at a lower resolution."""
        entries = self.entries
        if not entries:
            entries.append([at, 0.0])
        entry = [round(at, 3), entries[-1][1] + 1]
        if len(entries) > 1 and at - entries[-2][0] < FINE:
            entries[-1] = entry
        else:
            entries.append(entry)
        if len(entries) > MOST:
            self._thin(at, window)

    def cut(self, at: float, count: float) -> None:
        """Removes entries from this time on, when `count` calls had passed."""
        entries = self.entries
        while entries and entries[-1][0] >= at:
            entries.pop()
        entries.append([at, round(count, 2)])

    def refuse(self, at: float) -> None:
        """Removes the call made at this time: it was refused."""
        if self.entries[-1][0] < at:
            self.entries.append([at, self.entries[-1][1]])
        take_back(self.entries, at)

    def until(self, at: float) -> float:
        """How many calls had passed at this time."""
        later: list[float] | None = None
        for entry in reversed(self.entries):
            if entry[0] <= at:
                if later is None:
                    return entry[1]
                return entry[1] + (later[1] - entry[1]) * (at - entry[0]) / (later[0] - entry[0])
            later = entry
        return later[1] if later else 0.0

    def rate(self, end: float, seconds: float, more: float = 0.0) -> float:
        """Calls per second in the `seconds` before `end`, counting `more` additional calls."""
        return (self.until(end) + more - self.until(end - seconds)) / seconds

    def _thin(self, now: float, window: float) -> None:
        entries, step = self.entries, max(FINE, window / 25)
        thinned = entries[:1]
        for entry, following in zip(entries[1:], [*entries[2:], [now + window, 0.0]], strict=True):
            if entry[0] > now - RECENT or following[0] - thinned[-1][0] > step:
                thinned.append(entry)
        while len(thinned) > 2 and thinned[1][0] < now - window:
            thinned.pop(0)
        entries[:] = thinned


def take_back(entries: list[list[float]], at: float) -> None:
    """Subtracts one call from every entry from this time on."""
    for entry in entries:
        if entry[0] >= at:
            entry[1] -= 1
