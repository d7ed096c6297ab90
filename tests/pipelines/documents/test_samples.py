"""The samples of the demo are read as intended."""

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


def test_the_demo_starts_with_english_and_copies_follow_their_originals() -> None:
    """The first ones are readable for a newcomer, and an original comes before its copy."""
    names = [name for name, _ in demo.samples()]
    assert names[0] == "en-invoice-1.pdf"
    for name in names:
        if name.startswith("copy-"):
            assert names.index(name.partition("-of-")[2]) < names.index(name)


def test_the_samples_cover_every_kind() -> None:
    """Forty files with unique names: letters, receipts, scans, copies and broken ones."""
    assert len({one.name for one in MADE}) == len(MADE) == 40
    assert Counter(one.ending for one in MADE) == {"completed": 31, "duplicate": 4, "rejected": 2, "failed": 3}
    assert sum(one.scanned for one in MADE) == 4
    originals = {one.content for one in MADE if one.ending == "completed"}
    assert len(originals) == 31
    assert all((one.content in originals) == (one.ending in ("completed", "duplicate")) for one in MADE)


def test_most_fields_are_read_correctly(read: dict[str, Reading]) -> None:
    """At least 19 of 20 values, and every total."""
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


def test_broken_samples_are_recognised(read: dict[str, Reading]) -> None:
    """Each for its own reason."""
    codes = {one.name: (read[one.name].error or {}).get("code") for one in MADE if one.ending in ("failed", "rejected")}
    assert codes == {one.name: one.why for one in MADE if one.ending in ("failed", "rejected")}


def test_a_wrong_total_is_noticed(read: dict[str, Reading]) -> None:
    """One sample does not add up; the e-invoice is correct."""
    assert read["de-invoice-wrong-total.pdf"].verdict == "reject"
    assert read["fr-facturx.pdf"].verdict == "accept"
    assert read["fr-facturx.pdf"].fields["total"].source == "xml"


def test_many_samples_have_a_known_share_of_copies_and_broken_ones() -> None:
    """Of two hundred: ten broken, ten copies, and no other letter twice."""
    samples: list[Sample] = list(many(200))
    assert Counter(one.ending for one in samples) == {"completed": 180, "duplicate": 10, "failed": 10}
    assert len({one.content for one in samples}) == 190
    assert len({one.name for one in samples}) == 200
