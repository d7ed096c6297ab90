"""Streaming parser of forms with files: no part is ever completely in memory."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from tabellion.messages import Message
from tabellion.net.fetching import file_name
from tabellion.web.problems import Problem

MOST_HEADERS = 16  #: of one part
LONGEST_HEADER = 4096
_BOUNDARY = re.compile(rb"[ -~]{1,70}")


@dataclass(slots=True)
class FormPart:
    """The start of a part: its field and its file name."""

    name: str
    file: str | None = None  #: the file's name; None for a plain field
    media: str = ""


@dataclass(slots=True)
class End:
    """The end of a part."""


FormEvent = FormPart | bytes | End


@dataclass(slots=True)
class _Headers:
    """A part's headers while they arrive."""

    found: dict[str, bytes] = field(default_factory=dict)
    name: bytes = b""
    value: bytes = b""


def boundary_of(header: str) -> bytes:
    """The boundary between the parts, from the content type."""
    _, options = parse_options_header(header)
    boundary = options.get(b"boundary", b"")
    if not _BOUNDARY.fullmatch(boundary):
        raise Problem(400, "form_invalid", Message("problem.no_boundary"), fix=Message("fix.library_sets"))
    return boundary


async def events(stream: AsyncIterator[bytes], boundary: bytes, most: int) -> AsyncIterator[FormEvent]:
    """The parts of a form as they arrive: a `FormPart`, its bytes in chunks, an `End`; raises a Problem if invalid."""
    pending: list[FormEvent] = []
    headers = _Headers()
    count, ended = 0, False

    def begin() -> None:
        nonlocal headers, count
        headers = _Headers()
        count += 1
        if count > most:
            raise Problem(413, "too_many_parts", Message("problem.form_parts", n=most), limit=most)

    def header_name(data: bytes, start: int, end: int) -> None:
        headers.name += data[start:end]

    def header_value(data: bytes, start: int, end: int) -> None:
        headers.value += data[start:end]

    def header_end() -> None:
        name = headers.name.decode("latin-1").lower()
        if name in headers.found:
            raise Problem(400, "form_invalid", Message("problem.part_header_repeated"))
        headers.found[name] = headers.value
        headers.name = headers.value = b""

    def finish() -> None:
        nonlocal ended
        ended = True

    callbacks: Any = {
        "on_part_begin": begin, "on_header_field": header_name, "on_header_value": header_value,
        "on_header_end": header_end, "on_headers_finished": lambda: pending.append(_part(headers.found)),
        "on_part_data": lambda data, start, end: pending.append(bytes(data[start:end])),
        "on_part_end": lambda: pending.append(End()), "on_end": finish,
    }  # fmt: skip
    parser = MultipartParser(boundary, callbacks, max_header_count=MOST_HEADERS, max_header_size=LONGEST_HEADER)
    async for chunk in stream:
        if not chunk:
            continue
        try:
            parser.write(chunk)
        except FormParserError:
            raise Problem(400, "form_invalid", fix=Message("fix.library_writes")) from None
        for event in pending:
            yield event
        pending.clear()
    if not ended:
        raise Problem(400, "form_invalid", Message("problem.form_incomplete"), fix=Message("fix.complete_form"))


def _part(found: dict[str, bytes]) -> FormPart:
    disposition = found.get("content-disposition", b"")
    kind, options = parse_options_header(disposition)
    name = options.get(b"name")
    if kind != b"form-data" or name is None:
        raise Problem(400, "form_invalid", Message("problem.part_unnamed"))
    media = found.get("content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    raw_file_name = options.get(b"filename")
    if raw_file_name is None and b"filename*" in disposition.lower():
        raw_file_name = file_name(disposition.decode("latin-1")).encode("utf-8", "surrogateescape")
    return FormPart(_text(name), None if raw_file_name is None else _text(raw_file_name), media)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
