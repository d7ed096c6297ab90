"""Typed columns: every kind of field, values that do not fit, and stable schemas."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from tabellion.pipelines.documents.columns import FIRST, columns_of, merge_columns, moment
from tabellion.pipelines.documents.outputs import serialize_document
from tests.pipelines.documents.results import LEASE, document, field, lease


def row(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The row of a lease with these fields, as read back by Arrow."""
    table = columns_of(lease()).table([serialize_document(document(fields=fields, **more), lease())])
    return dict(table.to_pylist()[0])


def test_each_kind_of_field_has_its_type() -> None:
    """Dates are dates, amounts decimals, lists lists of structs, among the columns that every type has."""
    schema = columns_of(lease()).schema
    amount = pa.decimal128(18, 4)
    assert schema.names == [*FIRST, *(spec.name for spec in lease().fields), "confidence", "unfit"]
    types = {name: schema.field(name).type for name in schema.names}
    assert types["begins"] == pa.date32()
    assert types["rent"] == types["rate"] == amount
    assert types["furnished"] == types["reviewed"] == pa.bool_()
    assert types["tenant"] == types["currency"] == types["id"] == pa.string()
    assert types["rooms"] == pa.list_(pa.struct([("name", pa.string()), ("area", amount), ("since", pa.date32())]))
    assert types["created_at"] == pa.timestamp("us", tz="UTC")
    assert types["version"] == pa.int32()
    assert all(child.type == pa.float64() for child in types["confidence"])
    assert [child.name for child in types["confidence"]] == [spec.name for spec in lease().fields]


def test_values_come_back_as_they_were_read() -> None:
    """With their confidence, and no unfit value."""
    found = row({
        "tenant": "Zoë", "begins": "2024-02-29", "rent": "-1250.5", "rate": "9.975", "furnished": True,
        "currency": "CAD", "rooms": [{"name": "attic", "area": "12.5", "since": None}],
    })  # fmt: skip
    assert (found["tenant"], found["begins"], found["furnished"]) == ("Zoë", date(2024, 2, 29), True)
    assert (found["rent"], found["rate"]) == (Decimal("-1250.5"), Decimal("9.975"))
    assert found["rooms"] == [{"name": "attic", "area": Decimal("12.5"), "since": None}]
    assert found["created_at"] == datetime(2024, 2, 28, 23, 59, 59, 250_000, UTC)
    assert found["confidence"]["rent"] == 0.9
    assert found["unfit"] == []
    assert (found["type"], found["type_version"], found["verdict"]) == ("lease", "1", "warn")


def test_a_missing_value_is_null_and_the_schema_stays() -> None:
    """So is its confidence; an empty list that was read is an empty list."""
    found = row({"rooms": []})
    assert (found["tenant"], found["begins"], found["rent"], found["furnished"]) == (None, None, None, None)
    assert found["rooms"] == []
    assert found["confidence"]["rent"] is None
    assert found["confidence"]["rooms"] == 0.9


@pytest.mark.parametrize(
    ("name", "value"),
    [("begins", "2024-02-30"), ("begins", "29.2.2024"), ("rent", "12,50"), ("rent", "1" * 15), ("rent", "0.00001"),
     ("rent", True), ("rent", "NaN"), ("rent", {"a": 1}), ("rate", "1e3"), ("furnished", "yes"), ("tenant", 12),
     ("rooms", "attic"), ("rooms", {"name": "attic"})],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_null_and_listed(name: str, value: Any) -> None:
    """Nothing is rounded, cut or guessed."""
    found = row({name: value, "currency": "CAD"})
    assert found[name] is None
    assert [one["field"] for one in found["unfit"]] == [name]
    assert found["currency"] == "CAD"


def test_a_cell_that_does_not_fit_is_listed_with_its_row() -> None:
    """The other cells stay; an invalid row is left out."""
    found = row({"rooms": [{"name": "attic", "area": "big"}, "cellar", {"area": "3", "since": "2024-13-01"}]})
    assert found["rooms"] == [
        {"name": "attic", "area": None, "since": None}, {"name": None, "area": Decimal(3), "since": None},
    ]  # fmt: skip
    assert found["unfit"] == [
        {"field": "rooms[0].area", "value": "big"}, {"field": "rooms[1]", "value": "cellar"},
        {"field": "rooms[2].since", "value": "2024-13-01"},
    ]  # fmt: skip


def test_a_field_unknown_to_the_type_is_listed() -> None:
    """A value that a model returned beyond the schema is not lost."""
    assert row({"deposit": [1, 2]})["unfit"] == [{"field": "deposit", "value": "[1, 2]"}]


def test_the_limits_of_an_amount() -> None:
    """Fourteen digits before the point and four after it; trailing zeros do not count."""
    assert row({"rent": "99999999999999.9999"})["rent"] == Decimal("99999999999999.9999")
    assert row({"rent": "1.50000000"})["rent"] == Decimal("1.5")
    assert row({"rent": 3})["rent"] == 3
    assert row({"rent": 0.1})["rent"] == Decimal("0.1")


def test_fields_named_like_our_columns_are_renamed() -> None:
    """Whatever a type calls its fields."""
    text = LEASE.replace("  begins: date", "  id: id\n  version: number\n  field_id: text\n  unfit: bool")
    columns = columns_of(lease(text))
    names = {spec.name: column for column, spec in columns.fields}
    assert (names["id"], names["field_id"]) == ("field_field_id", "field_id")
    assert (names["version"], names["unfit"]) == ("field_version", "field_unfit")
    assert len(set(columns.schema.names)) == len(columns.schema.names)
    [found] = columns.table(
        [serialize_document(document(fields={"id": "A-1", "version": "2"}), lease(text))]
    ).to_pylist()
    assert (found["id"], found["field_field_id"], found["version"], found["field_version"]) == ("01", "A-1", 1, 2)


def test_invalid_unicode_is_written_too() -> None:
    """Half of a surrogate pair becomes a question mark."""
    assert row({"tenant": "a\ud800b", "rent": "\udfff"})["tenant"] == "a?b"


def test_the_schema_of_a_version_is_stable() -> None:
    """Two compilations of one file agree; a changed file has its own schema."""
    assert columns_of(lease()) is columns_of(lease())
    assert columns_of(lease(LEASE.replace("rent: money", "rent: text"))).schema != columns_of(lease()).schema


def test_several_types_together_have_all_their_columns() -> None:
    """Columns they agree on keep their type, the others are text; so are fields that no type knows."""
    other = lease(LEASE.replace("name: lease", "name: sale").replace("begins: date", "begins: text\n  price: money"))
    columns = merge_columns([lease(), other], names=["rent", "colour"])
    types = {name: columns.schema.field(name).type for name in columns.schema.names}
    assert (types["rent"], types["price"]) == (pa.decimal128(18, 4), pa.decimal128(18, 4))
    assert (types["begins"], types["colour"]) == (pa.string(), pa.string())
    fields = {"begins": field("2024-02-29"), "colour": field({"a": "é"}), "rent": field("1")}
    [found] = columns.table([serialize_document(document() | {"fields": fields})]).to_pylist()
    assert (found["begins"], found["colour"], found["rent"]) == ("2024-02-29", '{"a": "é"}', 1)
    assert merge_columns([lease()], names=["rent"]) is columns_of(lease())


def test_a_time_in_any_form_is_a_time() -> None:
    """As seconds, as ISO with or without a zone, as a datetime."""
    expected = datetime(2024, 2, 28, 23, 59, 59, 250_000, UTC)
    for value in (1709164799.25, "2024-02-28T23:59:59.250Z", "2024-02-29T01:59:59.25+02:00", "2024-02-28 23:59:59.250",
                  expected, expected.replace(tzinfo=None)):  # fmt: skip
        assert moment(value) == expected
        assert moment(value).utcoffset().total_seconds() == 0  # type: ignore[union-attr]
