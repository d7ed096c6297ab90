"""Errors of a visit: the site reports a problem or cannot be reached, a step fails, several results match."""

from __future__ import annotations

from tabellion.errors import TabellionError
from tabellion.messages import Message, quote_value
from tabellion.pipelines.registries.profile import Meaning, Step

REFUSED = ("locked", "wrong_password")  #: meanings after which an account is not used again


class SiteProblem(TabellionError):  # noqa: N818 - what the page says
    """The site itself reports a problem."""

    def __init__(self, site: str, means: Meaning, text: str = "") -> None:
        self.site, self.means, self.text = site, means, text
        super().__init__(Message(f"registry.{means}", site=site, text=quote_value(text)))


class SiteUnreachable(TabellionError):  # noqa: N818 - what happened
    """The site does not answer, or its name cannot be resolved."""

    def __init__(self, site: str, detail: str) -> None:
        super().__init__(Message("registry.unreachable", site=site, detail=detail))


class StepFailed(TabellionError):  # noqa: N818 - what happened
    """A step of a profile timed out: the site is slow, or has changed."""

    def __init__(self, file: str, step: Step, detail: str) -> None:
        self.file, self.step, self.detail = file, step, detail
        super().__init__(
            Message("registry.step_failed", file=file, line=step.line, step=step.describe(), detail=detail)
        )


class AmbiguousResult(TabellionError):  # noqa: N818 - what was found
    """Several results match and none exactly: choosing one is a person's decision."""

    def __init__(self, term: str, found: list[str]) -> None:
        self.found = found
        super().__init__(Message("registry.ambiguous", wanted=quote_value(term), found=found))
