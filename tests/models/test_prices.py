"""What calls cost, before and after."""

from __future__ import annotations

import re

import pytest

from tabellion.errors import ConfigurationError
from tabellion.models.base import Ask, Blob, Usage
from tabellion.models.prices import PRICES, cost, estimate, pages, price_of, table

USAGE = Usage(input=1_000_000, output=100_000, thoughts=100_000, cached=400_000)


def test_output_and_thoughts_cost_the_same_and_cached_input_less() -> None:
    """0.6 M fresh, 0.4 M cached, 0.2 M written, at the prices of gpt-4o-mini."""
    assert cost("gpt-4o-mini", USAGE) == pytest.approx(0.6 * 0.15 + 0.4 * 0.075 + 0.2 * 0.60)


def test_a_long_request_costs_more_where_the_provider_says_so() -> None:
    """Gemini 2.5 Pro has a second price beyond 200,000 tokens."""
    assert cost("gemini-2.5-pro", Usage(200_000, 1000)) == pytest.approx(0.25 + 0.01)
    assert cost("gemini-2.5-pro", Usage(200_001, 1000)) == pytest.approx(0.5 + 0.015, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("gemini-2.5-flash-001", "gemini-2.5-flash"),
        ("models/gemini-2.5-flash-lite", "gemini-2.5-flash-lite"),
        ("gemini-2.5-flash-lite-preview-09-2025", "gemini-2.5-flash-lite"),
        ("gpt-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        ("gemini-2.5-flash@503,latency=3", "gemini-2.5-flash"),
        ("gemini-2.5-flash-image", None),
        ("gpt-4", None),
        ("", None),
    ],
)
def test_a_release_costs_what_its_model_costs(name: str, known: str | None) -> None:
    """Dates, releases and a test server's knobs do not matter; another model is another model."""
    assert price_of(name) == (PRICES[known] if known else None)


def test_the_price_of_an_unknown_model_is_unknown() -> None:
    """None, not zero."""
    assert cost("mystery", USAGE) is None
    assert estimate("mystery", ["text"]) is None


def test_prices_are_dated_and_overridable() -> None:
    """Every entry has the day it was read; yours override it."""
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", price.date) for price in PRICES.values())
    mine = table({"mystery": {"input": 1, "output": 2}, "gpt-4o-mini": {"input": 0, "output": 0}})
    assert cost("mystery", Usage(1_000_000, 1_000_000), mine) == 3.0
    assert cost("gpt-4o-mini", USAGE, mine) == 0.0
    with pytest.raises(ConfigurationError, match=r"prices\.mystery"):
        table({"mystery": {"inputs": 1, "output": 2}})


def test_an_estimate_counts_text_pages_and_what_may_be_answered() -> None:
    """Four characters a token, 258 a page, a thousand out, limited by max_tokens."""
    page = Blob(b"\x89PNG", "image/png")
    flash = PRICES["gemini-2.5-flash"]
    expected = (100 * flash.input + (2 * 258) * flash.input + 2000 * flash.output) / 1e6
    assert estimate("gemini-2.5-flash", ["x" * 400, page, page]) == pytest.approx(expected)
    bounded = (258 * flash.input + (10 + 50) * flash.output) / 1e6
    assert estimate("gemini-2.5-flash", [page], Ask(max_tokens=10, thinking=50)) == pytest.approx(bounded)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"\xff\xd8 a photograph of any size" * 100_000, 1),
        (b"%PDF-1.4 << /Type /Pages /Count 3 >> /Type /Page /Type/Page /Type /Page", 3),
        (b"%PDF-1.7 /Count 40", 40),
        (b"%PDF-1.7 " + b"\x00" * 750_000, 10),
        (b"%PDF-1.7 /Count 99999", 10_000),
        (b"%PDF-1.7 /Count 99999999999999999999", 1),
        (b"%PDF", 1),
    ],
    ids=lambda value: str(value)[:30],
)
def test_pages_are_estimated_from_bytes(data: bytes, count: int) -> None:
    """What the file reveals, at least what its size suggests, and never an absurd number."""
    assert pages(data) == count
