"""The samples of the demo are read as they were meant."""

from __future__ import annotations

from collections import Counter

import pytest

import tabellion
from tabellion.pipelines.documents import demo
from tabellion.reading.reader import Reading
from tabellion.reading.sandbox import Sandbox
from tests.pipelines.documents.samples import Sample, many, samples

MADE = samples()


@pytest.fixture(scope="module")
def read() -> dict[str, Reading]:
    """Every sample that is not a copy, read."""
    with Sandbox(size=2) as sandbox:
        return {one.name: tabellion.read(one.content, sandbox=sandbox) for one in MADE if one.ending != "duplicate"}


def test_the_demo_begins_with_english_and_has_copies_behind_their_originals() -> None:
    """What a newcomer sees first can be read, and of two that are alike the original comes first."""
    names = [name for name, _ in demo.samples()]
    assert names[0] == "en-invoice-1.pdf"
    for name in names:
        if name.startswith("copy-"):
            assert names.index(name.partition("-of-")[2]) < names.index(name)


def test_there_is_something_of_everything() -> None:
    """Forty files with names of their own: letters, receipts, scans, copies and broken ones."""
    assert len({one.name for one in MADE}) == len(MADE) == 40
    assert Counter(one.ending for one in MADE) == {"completed": 31, "duplicate": 4, "refused": 2, "failed": 3}
    assert sum(one.scanned for one in MADE) == 4
    originals = {one.content for one in MADE if one.ending == "completed"}
    assert len(originals) == 31
    assert all((one.content in originals) == (one.ending in ("completed", "duplicate")) for one in MADE)


def test_most_fields_are_read_right(read: dict[str, Reading]) -> None:
    """Nineteen of twenty values at least, and every total."""
    right = wrong = 0
    for one in MADE:
        if one.ending != "completed":
            continue
        fields = read[one.name].fields
        assert str(fields["total"].value) == one.truth["total"], one.name
        for name, value in one.truth.items():
            good = name in fields and str(fields[name].value) == value
            right, wrong = right + good, wrong + (not good)
    assert right / (right + wrong) > 0.95


def test_what_is_broken_is_found_out(read: dict[str, Reading]) -> None:
    """Each for its own reason."""
    told = {one.name: (read[one.name].error or {}).get("code") for one in MADE if one.ending in ("failed", "refused")}
    assert told == {one.name: one.why for one in MADE if one.ending in ("failed", "refused")}


def test_a_total_that_is_wrong_is_noticed(read: dict[str, Reading]) -> None:
    """One sample does not add up; the e-invoice is right in every way."""
    assert read["de-invoice-wrong-total.pdf"].verdict == "reject"
    assert read["fr-facturx.pdf"].verdict == "accept"
    assert read["fr-facturx.pdf"].fields["total"].source == "xml"


def test_many_samples_have_copies_and_broken_ones_in_a_known_share() -> None:
    """Two hundred: ten broken, ten copies, and no letter twice otherwise."""
    made: list[Sample] = list(many(200))
    assert Counter(one.ending for one in made) == {"completed": 180, "duplicate": 10, "failed": 10}
    assert len({one.content for one in made}) == 190
    assert len({one.name for one in made}) == 200
