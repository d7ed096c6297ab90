"""Reads a streamed batch: each line checked, written to a temporary file, and read again while rows are inserted."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import IO

from pydantic import ValidationError

from tabellion.messages import Message
from tabellion.pipelines.batches.request import (
    Contradiction,
    NewPi,
    StagedImages,
    UrlBlocked,
    UrlChecks,
    without_duplicates,
)
from tabellion.web import strict_json
from tabellion.web.problems import Problem
from tabellion.web.validation import build_problem

LONGEST_LINE = 16_000_000  #: bytes
AT_ONCE = 100  #: entities that are added before other requests go on


class SpooledBatch:
    """The entities of a batch in a temporary file: any number of them, in little memory."""

    def __init__(self, file: IO[bytes], checks: UrlChecks, images: StagedImages) -> None:
        self._file, self._checks, self._images = file, checks, images
        self._digest = hashlib.sha256()
        self._names: set[bytes] = set()  #: hashes of the entities' names: an entity is in a batch once
        self.pis = self.refs = self.duplicates = 0

    @property
    def content_hash(self) -> str:
        """The hash of everything added so far."""
        return self._digest.hexdigest()

    async def add(self, pi: NewPi) -> None:
        """Adds an entity; raises Contradiction or UrlBlocked."""
        field = f"/pis/{self.pis}"
        pi, repeated = without_duplicates(pi, field)
        name = hashlib.blake2b(pi.pi.encode(), digest_size=12).digest()
        if name in self._names:
            raise Contradiction(f"{field}/pi", Message("batch.pi_twice_in_batch", name=pi.pi[:100]))
        self._names.add(name)
        self._images.add(pi, field)
        await self._checks.check_refs([pi], self.pis)
        line = json.dumps(pi.model_dump(), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._digest.update(line)
        self._file.write(line)
        self.pis, self.refs, self.duplicates = self.pis + 1, self.refs + len(pi.refs), self.duplicates + repeated

    async def add_all(self, pis: Iterable[NewPi]) -> None:
        """Adds entities, and lets other requests go on between them."""
        for number, pi in enumerate(pis):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            await self.add(pi)

    def __iter__(self) -> Iterator[NewPi]:
        self._file.seek(0)
        for line in self._file:
            content = json.loads(line)
            yield NewPi.model_construct(**{**content, "refs": [_REF.model_construct(**ref) for ref in content["refs"]]})


_REF = NewPi.model_fields["refs"].annotation.__args__[0]  # type: ignore[union-attr]


@asynccontextmanager
async def spool(checks: UrlChecks) -> AsyncIterator[SpooledBatch]:
    """A batch in a temporary file, which is removed with the block."""
    with tempfile.TemporaryFile(prefix="tabellion-batch-") as file, StagedImages() as images:
        yield SpooledBatch(file, checks, images)


async def add_lines(batch: SpooledBatch, chunks: AsyncIterator[bytes]) -> None:
    """Adds the entities of a JSONL stream, one on each line; a problem names the line."""
    pieces: list[bytes] = []  # of a line whose end has not come
    size = number = 0
    async for chunk in chunks:
        first, *lines = chunk.split(b"\n")
        pieces.append(first)
        size += len(first)
        for line in lines:
            number += 1
            await _add_line(batch, b"".join(pieces), number)
            pieces, size = [line], len(line)
        if size > LONGEST_LINE:
            raise Problem(413, "too_large", Message("batch.line_too_long", line=str(number + 1), n=LONGEST_LINE))
    await _add_line(batch, b"".join(pieces), number + 1)


async def _add_line(batch: SpooledBatch, line: bytes, number: int) -> None:
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)  # editors of Windows write it
    if not line.strip():
        return
    try:
        await batch.add(NewPi.model_validate(strict_json.loads(line)))
    except ValidationError as error:
        raise at_line(build_problem(error.errors(include_url=False)), number) from None
    except (Contradiction, UrlBlocked) as error:
        error.line, error.field = number, error.field.removeprefix(f"/pis/{batch.pis}")  # as of any other problem
        raise
    except Problem as problem:
        raise at_line(problem, number) from None


def at_line(problem: Problem, number: int) -> Problem:
    """The same problem with the number of its line."""
    problem.more["line"] = number
    if "column" in problem.more and isinstance(problem.detail, Message):  # its detail begins with a line: the first
        problem.detail = Message(problem.detail.code, **{**problem.detail.params, "line": str(number)})
    else:
        problem.detail = Message("batch.in_line", line=str(number), detail=problem.detail)
    return problem
