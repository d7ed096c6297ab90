"""The JSON shape of problems, the same on every route."""

from __future__ import annotations

from typing import Annotated, NotRequired

from tabellion.answers import Answer, Doc
from tabellion.messages import Translatable


class ProblemResponse(Answer):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    code: Annotated[str, Doc("Stable; see the list of codes.")]
    detail: str
    translatable: NotRequired[Translatable]
    field: NotRequired[Annotated[str, Doc("A JSON pointer into the body, or a parameter's name.")]]
    fix: NotRequired[Annotated[str, Doc("What to do.")]]
    request_id: str
