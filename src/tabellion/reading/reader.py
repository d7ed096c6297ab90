"""Reads a document with no key and no network: its pages, its fields, and what is wrong with them.

reading = read_local("invoice.pdf")
print(reading.fields["total"].value, reading.fields["total"].confidence)
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tabellion.reading.errors import CODES, Unreadable
from tabellion.reading.field import Field
from tabellion.reading.issue import Issue
from tabellion.reading.limits import Limits
from tabellion.reading.page import Page
from tabellion.reading.pages import OCR, Document, default_sandbox, open_document, page_told
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.types import typefile
from tabellion.reading.types.rules import verdict

TASK = "tabellion.reading.work:read"  #: named, not imported: only children load the field reader
#: Fields stand on the first pages, and sums on the last: the words of what lies between are not kept for them.
HEAD, TAIL = 30, 5

Progress = Callable[[int, int], None]  #: pages read, pages there are


@dataclass(frozen=True, slots=True)
class Reading:
    """What a document says."""

    file: str
    type: str | None = None
    kind: str | None = None  #: what the bytes are: pdf, png, …
    pages: tuple[Page, ...] = field(default=(), repr=False)
    fields: dict[str, Field] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()
    notes: tuple[str, ...] = ()
    error: Mapping[str, str] | None = None  #: {"code", "message"} where nothing could be read
    text: str = field(default="", repr=False)  #: as it was read, when words are asked for
    boosted: str = field(default="", repr=False)  #: the same with what OCR and typesetting broke mended
    changes: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)  #: each mending: kind, before, after
    model: str | None = None
    cost: float | None = None

    @property
    def verdict(self) -> str:
        """accept, warn or reject, by the worst of the issues."""
        return "reject" if self.error else verdict(self.issues)

    def told(self, *, words: bool = False) -> dict[str, Any]:
        """As JSON tells it; with the text and every word if asked for."""
        told: dict[str, Any] = {
            "file": self.file, "type": self.type, "kind": self.kind, "verdict": self.verdict,
            "pages": [page.summary() for page in self.pages],
            "fields": {name: one.told() for name, one in self.fields.items()},
            "issues": [issue.told() for issue in self.issues], "notes": list(self.notes),
        }  # fmt: skip
        if self.model:
            told |= {"model": self.model, "cost": self.cost}
        if self.error:
            told["error"] = dict(self.error)
        if words:
            told |= {"text": self.text, "boosted": self.boosted, "changes": [list(one) for one in self.changes]}
            for page, summary in zip(self.pages, told["pages"], strict=True):
                summary["words"] = [
                    [word.text, [round(side, 4) for side in word.box], round(word.score, 3)] for word in page.words
                ]
        return told


def read_local(
    source: str | os.PathLike[str] | bytes,
    type: str | os.PathLike[str] | None = None,  # noqa: A002 - the word for it everywhere
    *,
    password: str | None = None,
    ocr: OCR = "auto",
    types: Sequence[str | Path] = (typefile.FOLDER,),
    words: bool = False,
    limits: Limits | None = None,
    sandbox: Sandbox | None = None,
    progress: Progress | None = None,
) -> Reading:
    """Reads a path or bytes. Never raises for what is wrong with the document: that is the reading's `error`."""
    name = "<bytes>" if isinstance(source, bytes) else os.fspath(source)
    files = type_files(type, types)
    pool = sandbox or default_sandbox()
    try:
        with open_document(source, sandbox=pool, limits=limits, password=password, ocr=ocr) as document:
            pages, text = _pages(document, words, progress)
            header = document.header
        if all(page.source == "failed" for page in pages):
            raise Unreadable(_code(pages), pages[0].error or "" if pages else "")
        said = understand(pages, header.attachments, header.claims, files, pool, limits, boosted=words)
    except Unreadable as error:
        return Reading(str(name), error={"code": error.code, "message": str(error)})
    notes = [*header.notes, *(("no text was found",) if not any(page.words for page in pages) else ())]
    return replace(said, file=str(name), kind=header.kind.value, pages=tuple(pages), notes=tuple(notes), text=text)


def understand(
    pages: Sequence[Page],
    attachments: Sequence[tuple[str, bytes]],
    claims: Mapping[str, Mapping[str, str]] | None,
    types: Sequence[Path],
    sandbox: Sandbox,
    limits: Limits | None = None,
    *,
    boosted: bool = False,
) -> Reading:
    """The fields and issues of pages that were read, from a child."""
    arguments = {
        "pages": [page_told(page) for page in _telling(pages)],
        "attachments": [[name, base64.b64encode(data).decode()] for name, data in attachments],
        "claims": claims, "types": [str(path) for path in types], "boosted": boosted,
    }  # fmt: skip
    said: dict[str, Any] = {}
    for message in sandbox.run(TASK, arguments, limits=limits):
        said = message
    try:
        return Reading(
            "", type=str(said["type"]),
            fields={str(name): _field(told) for name, told in said["fields"].items()},
            issues=tuple(_issue(told) for told in said["issues"]), boosted=str(said.get("boosted", "")),
            changes=tuple((str(kind), str(before), str(after)) for kind, before, after in said.get("changes", ())),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable("reader_crashed", f"{CODES['reader_crashed']} of its senses") from None


def type_files(kind: str | os.PathLike[str] | None, folders: Sequence[str | Path]) -> list[Path]:
    """The file of the type that is asked for; all there are when none is, the invoice first: it is the likeliest."""
    found = typefile.available(folders)
    if isinstance(kind, str) and kind in found and found[kind].parent == typefile.SHIPPED:
        return [found[kind]]
    if kind is not None:
        return [Path(typefile.load(kind if isinstance(kind, str) else Path(kind), folders).file)]
    return sorted((path.absolute() for path in found.values()), key=lambda path: path.stem != "invoice")


def _pages(document: Document, words: bool, progress: Progress | None) -> tuple[list[Page], str]:
    """All pages; of a long document only those that fields stand on keep their words."""
    pages: list[Page] = []
    texts: list[str] = []
    count = document.header.count
    for page in document:
        if words:
            texts.append(page.text)
        elif len(pages) >= HEAD and page.number <= count - TAIL:
            page = replace(page, words=())
        pages.append(page)
        if progress:
            progress(page.number, count)
    return pages, "\n\n".join(texts)


def _telling(pages: Sequence[Page]) -> list[Page]:
    return [page for place, page in enumerate(pages) if page.words and (place < HEAD or place >= len(pages) - TAIL)]


def _code(pages: Sequence[Page]) -> str:
    """The code of a document of which no page could be read."""
    for code, meaning in CODES.items():
        if pages and pages[0].error and meaning in pages[0].error:
            return code
    return "pdf_damaged"


def _field(told: Mapping[str, Any]) -> Field:
    box = told["box"]
    return Field(
        value=told["value"], confidence=float(told["confidence"]), page=told["page"],
        box=None if box is None else (float(box[0]), float(box[1]), float(box[2]), float(box[3])), quote=told["quote"],
        source=str(told["source"]), reasons=tuple(str(reason) for reason in told["reasons"]),
    )  # fmt: skip


def _issue(told: Mapping[str, Any]) -> Issue:
    severity = told["severity"]
    if severity not in ("error", "warning"):
        raise ValueError(severity)
    return Issue(
        str(told["code"]), severity, str(told["message"]), tuple(map(str, told["fields"])), str(told["rule"] or "")
    )
