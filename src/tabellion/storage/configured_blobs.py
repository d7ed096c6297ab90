"""Received files where the configuration wants them: in a local folder or in a bucket."""

from __future__ import annotations

from pathlib import Path

from tabellion import extras
from tabellion.storage.blobs import Blobs


def open_blobs(place: str, data: Path, folder: str, cache_bytes: int) -> Blobs:
    """The files in a folder of a place: a local one (default: the data folder), or s3://bucket/prefix with a cache."""
    if not place.startswith("s3://"):
        return Blobs((Path(place) if place else data) / folder)
    with extras.explain_missing():
        from tabellion.storage.blob_bucket import BucketBlobs
    return BucketBlobs(f"{place.rstrip('/')}/{folder}", data / "cache" / folder, cache_bytes)
