"""A period in which a server's quota was used up: when it began, how long it lasted, what ended it."""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST_HINT = 0.2  # seconds: a shorter hint is about the next free call and not about the end of a window


@dataclass
class Exhaustion:
    """From the first refusal to the first call that passes again."""

    began_at: float = 0.0  #: when the first refused call was made
    until: float = 0.0  #: the last time at which the quota is known to have been used up
    probe_at: float = 0.0  #: when one call tests whether it is over
    clear_at: float = 0.0  #: a refusal of a call made later than this begins another exhaustion
    probing: bool = False  #: whether the probe's slot has not been handed out yet
    probes: int = 0  #: the number of refused probes
    hinted: bool = False  #: whether the server said how long it lasts
    rate: float = 0.0  #: calls per second when it began
    was_beyond: bool = False  #: whether the rate was above the known limit then
    limit: float = 0.0  #: the known limit then
    window: float = 0.0  #: the known window then
    was_window_known: bool = False
    quick: int = 0  #: how many exhaustions followed each other with few calls between them
    after_proven: bool = False  #: whether the exhaustion before it was proven

    @property
    def seconds(self) -> float:
        """How long the quota is known to have been used up."""
        return self.until - self.began_at

    @property
    def ended_at(self) -> float:
        """An estimate of when calls passed again, between the last refusal and the probe."""
        return self.until + 0.4 * (self.probe_at - self.until)

    @property
    def is_proven(self) -> bool:
        """Whether nothing passed for a while, rather than a single call being refused."""
        return self.probes > 0 or (self.hinted and self.seconds > SHORTEST_HINT)
