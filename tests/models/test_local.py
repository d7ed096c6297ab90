"""The model without a network reads what can be read here, and says what it cannot."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabellion.models.base import Ask, Blob, Reply
from tabellion.models.errors import Rejected
from tabellion.models.local import Local, paginate_text
from tabellion.models.output import complaint_of
from tabellion.reading.limits import Limits
from tabellion.reading.sandbox import Stopped
from tabellion.reading.types.typefile import load
from tests.models.bills import LINES, bill

FILE = Blob(bill(), "application/pdf")


def call(parts: list[str | Blob], schema: dict[str, Any] | None = None, **settings: Any) -> Reply:
    return asyncio.run(Local(**settings).call(parts, schema))


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def test_text_is_returned_for_free() -> None:
    """Text parts are joined; it costs no money and no tokens."""
    reply = call(["a", "b"])
    assert (reply.text, reply.cost, reply.usage.input) == ("a\nb", 0.0, 0)
    asyncio.run(Local().close())


def test_a_file_is_read() -> None:
    """Its text, without the prompt; several files follow each other."""
    reply = call([FILE, "Read this page."])
    assert reply.text == "\n".join(LINES)
    assert (reply.cost, reply.model, reply.object) == (0.0, "local", None)
    assert call([FILE, FILE]).text == "\n\n".join(["\n".join(LINES)] * 2)


@pytest.mark.parametrize("quotes", [True, False])
def test_the_schema_of_a_type_is_filled_in(quotes: bool) -> None:
    """Recognised by its title; the result fits the schema, with quotes and pages where requested."""
    schema = load("invoice", ()).json_schema(quotes=quotes)
    found = call([FILE], schema).object
    assert complaint_of(found, schema) == ""
    if quotes:
        assert found["total"] == {"value": "120.00", "quote": "120.00", "page": 1}
        assert found["iban"] == {"value": None, "quote": None, "page": None}
    else:
        assert (found["total"], found["invoice_date"], found["iban"]) == ("120.00", "2026-03-14", None)
    assert found["line_items"] == []


def test_a_part_of_a_types_schema_is_filled_in() -> None:
    """A divided question still belongs to the type."""
    schema = load("invoice", ()).json_schema()
    part = {**schema, "properties": {"total": schema["properties"]["total"]}, "required": ["total"]}
    assert call([FILE], part).object == {"total": "120.00"}


def test_any_schema_is_filled_in_by_the_names_of_its_properties() -> None:
    """Names in any case, values in the requested types; a missing value is null, or left out."""
    schema = fields(
        total={"type": "number"}, invoiceNumber={"type": "string"},
        Tax={"anyOf": [{"type": "number"}, {"type": "null"}]}, colour={"type": ["string", "null"]},
        issued={"type": "string", "format": "date", "title": "Invoice date"},
        currency={"type": "string", "enum": ["EUR", "USD"]}, line_items={"type": "array", "items": {"type": "object"}},
    )  # fmt: skip
    schema["properties"]["shoe_size"] = {"type": "integer"}
    reply = call([FILE], schema)
    assert reply.object == {
        "total": 120.0, "invoiceNumber": "A-77", "Tax": 20.0, "colour": None, "issued": "2026-03-14", "currency": "EUR",
        "line_items": [],
    }  # fmt: skip
    assert json.loads(reply.text) == reply.object


def test_text_works_like_a_file() -> None:
    """A text with line breaks is laid out like typewritten pages."""
    assert call(["\n".join(LINES)], fields(total={"type": "string"})).object == {"total": "120.00"}
    pages = list(paginate_text("\n".join(["a b"] * 61)))
    assert [len(page.words) for page in pages] == [120, 2]
    assert pages[0].words[1].box[0] > pages[0].words[0].box[2]


def test_a_custom_type_is_found_in_its_folder(tmp_path: Path) -> None:
    """By the title of its schema; without the folder, by the names alone."""
    (tmp_path / "slip.yaml").write_text(
        'name: slip\nversion: "1"\nfields:\n  code: {type: id, labels: [invoice number]}\n'
    )
    schema = load("slip", [tmp_path]).json_schema()
    assert call([FILE], schema, types=tmp_path).object == {"code": "A-77"}
    assert call([FILE], schema, types=[]).object == {"code": None}


def test_what_it_cannot_do_is_reported() -> None:
    """Unreadable files by their code, unsupported options by name, schemas without fields."""
    for data, code in ((b"", "empty_file"), (b"hello", "type_unsupported"), (b"%PDF-1.4 junk", "pdf_damaged")):
        with pytest.raises(Rejected, match=code):
            call([Blob(data, "application/pdf")])
    with pytest.raises(Rejected, match="did not find 'shoe_size'"):
        call([FILE], fields(shoe_size={"type": "number"}, total={"type": "number"}))
    with pytest.raises(Rejected, match="has none"):
        call([FILE], {"type": "object"})
    with pytest.raises(Rejected, match="none of the fields"):
        call([FILE], fields(people={"type": "array", "items": {"type": "string"}}))


class SlowSandbox:
    """Reads as long as it may."""

    limits = Limits()

    def run(
        self, task: str, arguments: Any, file: int | None = None, limits: Limits | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[Any]:  # fmt: skip
        """Wait until it is stopped."""
        assert stop is not None
        assert stop.wait(60)
        raise Stopped
        yield


@pytest.mark.parametrize("parts", [[FILE], ["Total 12.00"]])
def test_the_deadline_covers_reading_and_fields(parts: list[str | Blob]) -> None:
    """A call past its deadline is rejected, while reading a file or the fields."""
    model = Local(sandbox=SlowSandbox())  # type: ignore[arg-type]
    with pytest.raises(Rejected, match="timed_out"):
        asyncio.run(model.call(parts, fields(total={"type": "number"}), Ask(deadline=0.05)))
