"""The model that needs no network and no key."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tabellion.models.base import Ask, Part, Reply, Schema
from tabellion.models.errors import Rejected


class Local:
    """Answers what can be answered here, and says so plainly when it cannot."""

    name = "local"
    model = "local"

    def __repr__(self) -> str:
        return "<Local>"

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """The text of the parts; a page or a schema needs a reader that is not there yet."""
        started = time.monotonic()
        if schema is not None:
            raise Rejected("the local model cannot fill in fields yet: configure gemini or openai")
        if any(not isinstance(part, str) for part in parts):
            raise Rejected("the local model cannot read pages yet: configure gemini, openai or deepinfra")
        text = "\n".join(str(part) for part in parts)
        return Reply(text=text, cost=0.0, model=self.model, seconds=time.monotonic() - started)

    async def close(self) -> None:
        """Nothing is held."""
