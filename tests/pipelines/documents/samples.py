"""The shipped samples with their expected results (samples.json), and any number of invented letters."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tabellion.pipelines.documents import demo
from tests.pipelines.documents import bills

Ending = Literal["completed", "duplicate", "failed", "rejected"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One file: its name, its content, and its expected result."""

    name: str
    content: bytes = field(repr=False)
    type: str | None = None
    truth: Mapping[str, str] = field(default_factory=dict)  #: fields and their values, as a reader should tell them
    ending: Ending = "completed"  #: rejected: it is not stored
    why: str = ""  #: the error's code, where there is one
    scanned: bool = False


def samples(*, scans: bool = True) -> list[Sample]:
    """The documents of the demo."""
    contents = dict(demo.samples())
    known = json.loads(Path(__file__).with_name("samples.json").read_text())
    found = [Sample(name, contents.pop(name), **facts) for name, facts in known.items()]
    assert not contents, "samples.json does not tell what should come of these"
    return [one for one in found if scans or not one.scanned]


def many(count: int, seed: int = 2026) -> Iterator[Sample]:
    """Return this many different letters, without scans; every tenth a copy, every twentieth broken."""
    chance = random.Random(seed)
    kinds = list(bills.COUNTRIES)
    last: Sample | None = None
    for number in range(count):
        if number % 20 == 19:
            content = b"%PDF-1.7\n" + f"damaged beyond repair, number {number}".encode()
            yield Sample(f"broken-{number:04}.pdf", content, ending="failed", why="pdf_damaged")
        elif number % 10 == 9 and last is not None:
            yield Sample(f"copy-{number:04}.pdf", last.content, last.type, last.truth, "duplicate")
        else:
            bill = bills.invent(kinds[number % len(kinds)], chance)
            last = Sample(f"bill-{number:04}.pdf", bills.invoice(bill, number % 3).to_bytes(), "invoice", bill.truth)
            yield last
