"""The four parts of a priority, and their weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tabellion.pipelines.documents.priority import Urgency, urgency
from tabellion.reading.field import Field
from tabellion.reading.issue import Issue
from tabellion.reading.page import Page
from tabellion.reading.reader import Reading
from tests.models.bills import SMALL

PAGE = Page(1, 1, 1, "text")


@pytest.mark.parametrize(
    ("parts", "near", "priority"),
    [((1, 0, 0), 0, 0.0), ((0, 0, 0), 0, 0.4), ((1, 0, 0), 1, 0.3), ((1, 1, 0), 0, 0.2), ((1, 0, 1), 0, 0.1),
     ((0, 1, 1), 1, 1.0), ((0, 1, 1), 99, 1.0), ((1, 0, 0), -5, 0.0), ((0.5, 0.5, 0.5), 0.5, 0.5)],
)  # fmt: skip
def test_the_weights_are_those_of_the_seed(parts: tuple[float, float, float], near: float, priority: float) -> None:
    """40 % doubt, 30 % urgency, 20 % complexity, 10 % value; always between 0 and 1."""
    assert Urgency(*parts).priority(near) == pytest.approx(priority)


def test_confidence_is_the_mean_of_found_and_required_fields() -> None:
    """A missing required field counts as zero; a missing optional one does not count."""
    both = Reading("x", pages=(PAGE,), fields={"vendor": Field("A", 0.8), "total": Field("1", 0.6)})
    assert urgency(both, SMALL).confidence == pytest.approx(0.7)
    assert urgency(replace(both, fields={"vendor": Field("A", 0.8)}), SMALL).confidence == pytest.approx(0.4)
    assert urgency(Reading("x"), SMALL).confidence == 0


def test_complexity_grows_with_pages_rows_and_issues_up_to_one() -> None:
    """A page without issues is not complex."""
    plain = Reading("x", pages=(PAGE,), fields={"vendor": Field("A", 1.0)})
    assert urgency(plain, SMALL).complexity == 0
    longer = replace(plain, pages=(PAGE,) * 11)
    assert urgency(longer, SMALL).complexity == pytest.approx(0.5 / 3, abs=1e-6)
    rows = replace(plain, fields={"line_items": Field([{}] * 25, 1.0)})
    assert urgency(rows, SMALL).complexity == pytest.approx(0.5 / 3, abs=1e-6)
    worst = replace(rows, pages=(PAGE,) * 99, issues=(Issue("rule", "error", "x"),) * 9)
    assert urgency(worst, SMALL).complexity < 1
    assert urgency(replace(worst, fields={"line_items": Field([{}] * 99, 1.0)}), SMALL).complexity == 1


def test_value_is_the_total_by_its_digits() -> None:
    """Nothing is 0, a million and more is 1; an invalid total counts as nothing."""

    def value(**fields: str) -> float:
        return urgency(Reading("x", fields={name: Field(one, 1.0) for name, one in fields.items()}), SMALL).value

    assert value() == 0
    assert value(total="999.00") == pytest.approx(0.5, abs=1e-3)
    assert value(total="-999.00") == value(total="999.00")
    assert value(total="1000000.00") == value(total="5000000000.00") == 1
    assert value(total="much") == 0
    assert value(tax="999.00") == value(total="999.00")
    assert value(tax="1.00", total="999.00", subtotal="5000.00") == value(total="999.00")
