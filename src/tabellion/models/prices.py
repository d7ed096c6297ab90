"""Prices of calls: a small dated table that settings override, and an estimate before the call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from tabellion.errors import ConfigurationError
from tabellion.models.base import Ask, Part, Usage


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float  #: thoughts cost the same
    cached: float | None = None  #: input from the provider's cache; None: the price of other input
    date: str = ""  #: when it was on the provider's page
    long: tuple[float, float, float] | None = None  #: input, output, cached of a request beyond `LONG` input tokens


LONG = 200_000

#: From ai.google.dev/gemini-api/docs/pricing, developers.openai.com/api/docs/pricing and the olmOCR README.
PRICES: dict[str, Price] = {
    "gemini-2.5-flash-lite": Price(0.10, 0.40, 0.01, "2026-10-07"),
    "gemini-2.5-flash": Price(0.30, 2.50, 0.03, "2026-10-07"),
    "gemini-2.5-pro": Price(1.25, 10.00, 0.125, "2026-10-07", long=(2.50, 15.00, 0.25)),
    "gemini-3.5-flash-lite": Price(0.30, 2.50, None, "2026-10-07"),
    "gemini-3.5-flash": Price(1.50, 9.00, None, "2026-10-07"),
    "gpt-4.1": Price(2.00, 8.00, 0.50, "2026-11-05"),
    "gpt-4.1-mini": Price(0.40, 1.60, 0.10, "2026-11-05"),
    "gpt-4.1-nano": Price(0.10, 0.40, 0.025, "2026-11-05"),
    "gpt-4o": Price(2.50, 10.00, 1.25, "2026-11-05"),
    "gpt-4o-mini": Price(0.15, 0.60, 0.075, "2026-11-05"),
    "allenai/olmOCR-2-7B-1025": Price(0.09, 0.19, None, "2026-11-10"),
}

#: Suffixes of a known name that do not change the price: a release, a date, a test server's knob.
_RELEASE = re.compile(r"(?:-\d{3}|-\d{4}-\d{2}-\d{2}|-latest|-preview(?:-[\d-]+)?|@.*)$")

PAGE_TOKENS = 258  # Gemini's tokens for a page or an image
TILED_TOKENS = 1600  # other providers' tokens for a page at 1288 px
OUTPUT_TOKENS = 1000  # a page of dense text, or the fields of an invoice
PAGE_BYTES = 75_000  # of a scanned page; a page of plain text is smaller, and is counted in other ways
MOST_PAGES = 10_000

Prices = Mapping[str, Price | Mapping[str, float]]


def table(overrides: Prices | None = None) -> dict[str, Price]:
    """The price table with overrides such as `{"my-model": {"input": 0.1, "output": 0.4}}`."""
    return PRICES | {model: _price(model, price) for model, price in (overrides or {}).items()}


def _price(model: str, override: Price | Mapping[str, float]) -> Price:
    if isinstance(override, Price):
        return override
    known = [field.name for field in fields(Price) if field.name != "long"]
    if not isinstance(override, Mapping) or not {"input", "output"} <= set(override) <= set(known):
        example = "{ input = …, output = …, cached = … } in dollars per million tokens"
        raise ConfigurationError(f"prices.{model}: write {example}")
    return Price(**override)  # type: ignore[arg-type]


def price_of(model: str, prices: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a model, by its name without suffixes for releases."""
    prices = PRICES if prices is None else prices
    name = model.removeprefix("models/")
    while name not in prices:
        shorter = _RELEASE.sub("", name)
        if shorter == name:
            return None
        name = shorter
    return prices[name]


def cost(model: str, usage: Usage, prices: Mapping[str, Price] | None = None) -> float | None:
    """The cost of a call in dollars; None where the price is unknown."""
    price = price_of(model, prices)
    if price is None:
        return None
    rates = (price.input, price.output, price.input if price.cached is None else price.cached)
    if price.long is not None and usage.input > LONG:
        rates = price.long
    cached = min(usage.cached, usage.input)
    dollars = (usage.input - cached) * rates[0] + (usage.output + usage.thoughts) * rates[1] + cached * rates[2]
    return round(dollars / 1_000_000, 9)


def estimate(model: str, parts: Sequence[Part], ask: Ask = Ask()) -> float | None:
    """The approximate cost of a call in dollars before it is made, for budgets."""
    texts = len(ask.system or "") + sum(len(part) for part in parts if isinstance(part, str))
    count = sum(pages(part.data) for part in parts if not isinstance(part, str))
    per_page = PAGE_TOKENS if "gemini" in model else TILED_TOKENS
    output = min(ask.max_tokens, OUTPUT_TOKENS * max(1, count))
    return cost(model, Usage(input=texts // 4 + count * per_page, output=output, thoughts=ask.thinking or 0))


def pages(data: bytes) -> int:
    """The approximate number of pages of a file, from its bytes alone: a PDF is not parsed outside the sandbox."""
    if not data.startswith(b"%PDF"):
        return 1
    page_objects = len(re.findall(rb"/Type\s*/Page\b", data))
    declared = max((int(number) for number in re.findall(rb"/Count\s+(\d{1,5})\b", data)), default=0)
    return min(MOST_PAGES, max(1, page_objects, declared, len(data) // PAGE_BYTES))
