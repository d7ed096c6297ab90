"""Multipart forms, parsed in whatever pieces they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.web.multipart import End, FormPart, boundary_of, events
from tabellion.web.problems import Problem

FORM = (
    b'--b\r\nContent-Disposition: form-data; name="type"\r\n\r\ninvoice\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a \\"b\\".pdf"\r\n'
    b"Content-Type: Application/PDF; x=y\r\n\r\n%PDF-\r\n--c\r\n\x00\xff\r\n"
    b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename*=UTF-8''%C3%A4.pdf\r\n\r\n\r\n--b--\r\n"
)


def parse(pieces: list[bytes], most: int = 10) -> list[tuple[FormPart, bytes]]:
    """Return the parts with their bytes."""

    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def go() -> list[tuple[FormPart, bytes]]:
        parts: list[tuple[FormPart, bytes]] = []
        ended = 0
        async for event in events(stream(), b"b", most):
            if isinstance(event, FormPart):
                parts.append((event, b""))
            elif isinstance(event, End):
                ended += 1
            else:
                parts[-1] = (parts[-1][0], parts[-1][1] + event)
        assert ended == len(parts)
        return parts

    return asyncio.run(go())


@given(st.lists(st.integers(1, 60), max_size=20))
def test_a_form_is_parsed_the_same_however_it_is_cut(sizes: list[int]) -> None:
    """Names, types and every byte."""
    pieces, place = [], 0
    for size in sizes:
        pieces.append(FORM[place : place + size])
        place += size
    parts = parse([*pieces, FORM[place:]])
    assert parts == [
        (FormPart("type"), b"invoice"),
        (FormPart("file", 'a "b".pdf', "application/pdf"), b"%PDF-\r\n--c\r\n\x00\xff"),
        (FormPart("file", "ä.pdf"), b""),
    ]


@given(st.binary(max_size=200), st.integers(0, len(FORM)))
def test_any_input_is_a_form_or_a_problem(noise: bytes, place: int) -> None:
    """No other exception is raised."""
    for form in (noise, FORM[:place] + noise + FORM[place:], FORM[:place]):
        try:
            parse([form])
        except Problem as problem:
            assert problem.status in (400, 413)  # noqa: PT017 - a form is as good an outcome


def test_the_number_of_parts_is_limited() -> None:
    """One too many is rejected."""
    with pytest.raises(Problem, match="too_many_parts"):
        parse([FORM], most=2)


@pytest.mark.parametrize("header", ["multipart/form-data", "multipart/form-data; boundary=", 'x; boundary="ä"'])
def test_a_valid_boundary_is_required(header: str) -> None:
    """A missing or unusual boundary is rejected."""
    with pytest.raises(Problem):
        boundary_of(header)
    assert boundary_of("multipart/form-data; boundary=b") == b"b"
