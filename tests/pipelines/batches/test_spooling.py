"""Streams of entities: lines are found however the stream is divided, in time that grows with its length."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tabellion.net.guard import Rules
from tabellion.pipelines.batches import spooling
from tabellion.pipelines.batches.request import UrlChecks
from tabellion.pipelines.batches.spooling import add_lines, spool
from tabellion.web.problems import Problem
from tests.pipelines.batches.live import PUBLIC
from tests.pipelines.batches.material import pi_of


def add(data: bytes, size: int) -> list[str]:
    """Return the names of the entities in a stream whose pieces have this size."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    async def go() -> list[str]:
        async with spool(UrlChecks(Rules())) as batch:
            await add_lines(batch, pieces())
            return [pi.pi for pi in batch]

    return asyncio.run(go())


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_a_line_may_come_in_any_pieces(size: int) -> None:
    """Also with blank lines, and without an end of the last one."""
    lines = "\n\n".join(json.dumps(pi_of(PUBLIC, number, 2)) for number in range(5))
    assert add(lines.encode(), size) == [f"pi{number}" for number in range(5)]


def test_a_line_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it fills the memory; a line of the greatest length is read."""
    monkeypatch.setattr(spooling, "LONGEST_LINE", 1000)
    line = json.dumps(pi_of(PUBLIC, 0, 2)).encode()
    assert add(line + b"\n" + b" " * 900, 100) == ["pi0"]
    with pytest.raises(Problem) as raised:
        add(line + b"\n" + b" " * 1200, 100)
    assert "line 2" in str(raised.value.detail)
