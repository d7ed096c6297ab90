"""A time in which a server's quota was used up: when it began, how long it lasted, what ended it."""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST_HINT = 0.2  # seconds: a shorter hint tells of the next free call, not of a window's end


@dataclass
class Exhaustion:
    """From the first refusal to the first call that passes again."""

    began_at: float = 0.0  #: when the first refused call was made
    until: float = 0.0  #: the last time at which the quota is known to have been used up
    probe_at: float = 0.0  #: when one call finds out whether it is over
    clear_at: float = 0.0  #: a refusal of a call made from then on is the beginning of another one
    probing: bool = False  #: whether nobody has got the probe's slot yet
    probes: int = 0  #: that were refused
    hinted: bool = False  #: whether the server said how long it lasts
    rate: float = 0.0  #: calls per second when it began
    was_beyond: bool = False  #: whether the rate was going beyond the limit then
    limit: float = 0.0  #: what was held for the limit then
    window: float = 0.0  #: and for the window
    was_window_known: bool = False
    quick: int = 0  #: how many came one after another with few calls between them
    after_proven: bool = False  #: whether the one before it was proven too

    @property
    def seconds(self) -> float:
        """How long the quota is known to have been used up."""
        return self.until - self.began_at

    @property
    def ended_at(self) -> float:
        """When calls passed again, as well as one can tell: between the last refusal and the probe."""
        return self.until + 0.4 * (self.probe_at - self.until)

    @property
    def is_proven(self) -> bool:
        """Whether nothing passed for a while, and not only one call too many was refused."""
        return self.probes > 0 or (self.hinted and self.seconds > SHORTEST_HINT)
