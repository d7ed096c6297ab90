"""A model as a third party would write one: one file, no SDK, only the contract."""

from __future__ import annotations

from collections.abc import Sequence

from tabellion.models.base import Ask, Part, Reply, Schema
from tabellion.models.errors import KeyRefused, Rejected
from tabellion.models.output import judge


class Echo:
    """Answers with what it was sent."""

    name = "echo"

    def __init__(self, key: str = "", base_url: str = "http://echo.example", model: str = "echo-1") -> None:
        self.model = model
        self.base_url = base_url
        self._key = key

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """Return the text parts, joined."""
        if self._key == "wrong":
            raise KeyRefused("echo does not know this key")
        if any(not isinstance(part, str) for part in parts):
            raise Rejected("echo reads text only")
        text = "\n".join(str(part) for part in parts)
        return Reply(text=text, object=judge(text, schema, ask), model=self.model, cost=0.0)

    async def close(self) -> None:
        """Do nothing."""
