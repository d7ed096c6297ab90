"""Labelled documents for the accuracy programs: sets in a folder, their variants, and the scorer of a value."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tabellion.reading.page import Page
from tabellion.reading.pages import open_document
from tabellion.reading.reader import Reading, read_local
from tabellion.reading.sandbox import Sandbox

#: How the variants of a set of PDFs are made: the words alone, and pictures of the pages.
VARIANTS = ("strip", "scan")


@dataclass(frozen=True, slots=True)
class Labelled:
    """One document and what is known about it."""

    id: str
    path: Path
    item: dict[str, Any]

    @property
    def labels(self) -> dict[str, Any]:
        """The values printed on it."""
        visible = self.item.get("visible", {})
        labels = self.item.get("labels") or {}
        return {name: value for name, value in labels.items() if value is not None and visible.get(name) is not False}


def documents(folder: Path) -> list[Labelled]:
    """Return the documents of a set."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return [Labelled(item["id"], folder / item["file"], item) for item in manifest["items"]]


def scorer(data: Path) -> ModuleType:
    """Return the scorer that comes with the data: what counts as the same value is not ours to say."""
    sys.path.insert(0, str(data))
    spec = importlib.util.spec_from_file_location("score_fields", data / "score_fields.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{data} holds no score_fields.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def variant(data: Path, mode: str, source: Path, target: Path, *more: str) -> Path:
    """Return a variant of a set, created by the program that comes with the data."""
    subprocess.run(
        [sys.executable, str(data / "variants.py"), mode, str(source), str(target), *more],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return target


def readings(found: list[Labelled], sandbox: Sandbox, **options: Any) -> Iterator[tuple[Labelled, Reading]]:
    """Yield each document with its reading, several at a time."""
    with ThreadPoolExecutor(sandbox.size) as pool:
        yield from zip(
            found, pool.map(lambda one: read_local(one.path, sandbox=sandbox, **options), found), strict=True
        )


def pages_of(found: list[Labelled], sandbox: Sandbox) -> Iterator[tuple[Labelled, list[Page]]]:
    """Yield each document with its pages."""

    def pages(one: Labelled) -> list[Page]:
        with open_document(one.path, sandbox=sandbox) as document:
            return list(document)

    with ThreadPoolExecutor(sandbox.size) as pool:
        yield from zip(found, pool.map(pages, found), strict=True)
