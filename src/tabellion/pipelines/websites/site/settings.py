"""The settings of a visit: how much it may fetch, how politely, and whether a browser may be used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from tabellion.net.guard import Rules

if TYPE_CHECKING:
    from tabellion.net.chromium import Chromium

BrowserUse = Literal["auto", "always", "never"]
#: Sites see this name in their logs and in robots.txt, and find out at the address who is asking.
USER_AGENT = "tabellion/0.1 (+https://github.com/tabellion/tabellion)"


@dataclass(frozen=True, slots=True)
class VisitSettings:
    """What one visit may do. The defaults suit a public site."""

    user_agent: str = USER_AGENT  #: its first word, before the slash, is the name in robots.txt
    respect_robots: bool = True
    pages: int = 5  #: with the home page
    page_bytes: int = 5_000_000  #: of one page, decompressed; the rest is not read
    page_seconds: float = 20.0  #: for one page, with its redirects
    seconds: float = 120.0  #: for the whole visit; the sample ends early when they are over
    redirects: int = 10
    pause: float = 1.0  #: seconds between two requests to the same host, from this process
    longest_pause: float = 10.0  #: a site whose robots.txt asks for a longer one gets its home page read only
    browser: BrowserUse = "auto"  #: `auto`: when the page shows too little without its scripts
    screenshot: bool = True  #: of the home page, if there is a browser
    guard: Rules = field(default_factory=Rules)  #: which addresses may be contacted
    chromium: Chromium | None = None  #: the browser to use; without one, pages are read as the server sends them

    def __post_init__(self) -> None:
        if self.browser not in get_args(BrowserUse):
            raise ValueError(f"browser must be one of {', '.join(get_args(BrowserUse))}, not {self.browser!r}")
        for name in ("pages", "page_bytes", "page_seconds", "seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name)!r}")
        for name in ("redirects", "pause", "longest_pause"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)!r}")
        if not self.robots_name:
            raise ValueError(f"user_agent must begin with a name, such as {USER_AGENT!r}")

    @property
    def robots_name(self) -> str:
        """The name that robots.txt knows this program by: `tabellion` of `tabellion/0.1 (…)`."""
        return self.user_agent.split("/")[0].split()[0].lower() if self.user_agent.split("/")[0].split() else ""
