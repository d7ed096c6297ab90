"""The sample files of demos: invented letters, receipts and scans, copies of some, and some broken ones."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "samples"


def sample_files() -> list[Path]:
    """Every sample, by name."""
    return sorted(FOLDER.iterdir())


def sample_file(name: str) -> Path:
    """The sample of this name."""
    return FOLDER / name
