"""The sample files that demos share."""

from __future__ import annotations

from tabellion.reading.sample_files import sample_file, sample_files


def test_samples_are_found_by_name() -> None:
    """Each of the listed files, and nothing but samples."""
    found = sample_files()
    assert [sample_file(path.name) for path in found] == found
    assert all(path.is_file() and path.suffix in (".pdf", ".png", ".jpg") for path in found)
