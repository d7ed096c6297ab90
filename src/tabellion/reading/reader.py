"""Reads a document locally, without an API key or network: its pages, its fields and its issues.

reading = read_local("invoice.pdf")
print(reading.fields["total"].value, reading.fields["total"].confidence)
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tabellion.errors import ConfigurationError
from tabellion.messages import Message, restore_text, translatable
from tabellion.reading.alternative import Alternative, Alternatives
from tabellion.reading.child import FRAME
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.errors import INVALID, Unreadable
from tabellion.reading.field import Field
from tabellion.reading.header import Header
from tabellion.reading.issue import Issue
from tabellion.reading.limits import Limits
from tabellion.reading.page import OCR, Page, build_failed_page, serialize_page
from tabellion.reading.pages import DocumentSource, OpenDocument, open_document, plain
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.types import typefile
from tabellion.reading.types.rules import Verdict, verdict

#: A name instead of an import: only children load the field reader.
TASK = "tabellion.reading.field_extraction:extract_in_child"
#: Fields are on the first pages, and sums on the last: the words of the pages between are not kept.
HEAD, TAIL = 30, 5
#: Most bytes of a word in a message beside its letters; and of a message beside its pages and embedded files.
WORD_BYTES, REST = 64, 256 << 10
DAMAGED = "damaged"  #: the code of an issue: the document was read, but something may be missing
TRIMMED = Message("note.too_many_words")

ReadingProgress = Callable[[int, int], None]  #: called with the pages read and the number of pages
PageCallback = Callable[[Page], None]  #: called with each page and all its words, as soon as it is read


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a document."""

    file: str
    type: str | None = None
    certainty: float = 1.0  #: share of the evidence for the type, where it was recognised
    kind: str | None = None  #: the file format: pdf, png, …
    pages: tuple[Page, ...] = field(default=(), repr=False)
    fields: dict[str, Field] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()
    notes: tuple[str, ...] = ()
    error: Mapping[str, Any] | None = None  #: {"code", "message"} where the document could not be read
    text: str = field(default="", repr=False)  #: with `words`: the text as it was read
    boosted: str = field(default="", repr=False)  #: the same with repaired OCR and typesetting errors
    changes: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)  #: each repair: kind, before, after
    model: str | None = None
    cost: float | None = None
    type_version: str | None = None
    type_key: str | None = None  #: the type's version and digest; a document with another key must be read again
    sha256: str | None = None  #: of the document's bytes
    offers: Alternatives = field(default_factory=dict, repr=False)  #: with `offers`: other values
    seconds: float | None = None  #: duration of the reading in wall-clock time

    @property
    def verdict(self) -> Verdict:
        """accept, warn or reject, by the worst issue; a document of unknown type or without words is never accepted."""
        if self.error:
            return "reject"
        by_issues = verdict(self.issues)
        return "warn" if by_issues == "accept" and (self.type is None or self._blank) else by_issues

    @property
    def _blank(self) -> bool:
        """Whether no page has words or fields."""
        return bool(self.pages) and not self.fields and not any(page.words for page in self.pages)

    def as_dict(self, *, words: bool = False) -> dict[str, Any]:
        """The reading as JSON; with `words` also the text and every word."""
        data: dict[str, Any] = {
            "file": self.file, "sha256": self.sha256, "type": self.type, "type_version": self.type_version,
            "type_key": self.type_key, "kind": self.kind, "verdict": self.verdict, "seconds": self.seconds,
            "pages": [page.summary() for page in self.pages],
            "fields": {name: field.as_dict() for name, field in self.fields.items()},
            "issues": [issue.as_dict() for issue in self.issues], "notes": list(self.notes),
            **translatable(notes=self.notes),
        }  # fmt: skip
        if self.model:
            data |= {"model": self.model, "cost": self.cost}
        if self.error:
            data["error"] = dict(self.error)
        if words:
            data |= {"text": self.text, "boosted": self.boosted, "changes": [list(change) for change in self.changes]}
            for page, summary in zip(self.pages, data["pages"], strict=True):
                summary["words"] = [
                    [word.text, [round(side, 4) for side in word.box], round(word.score, 3)] for word in page.words
                ]
        return data

    told = as_dict  #: the former name


def read_local(
    source: DocumentSource,
    type: str | os.PathLike[str] | None = None,  # noqa: A002 - the word for it everywhere
    *,
    password: str | None = None,
    ocr: OCR = "auto",
    types: Sequence[str | Path] = (typefile.FOLDER,),
    words: bool = False,
    limits: Limits | None = None,
    sandbox: Sandbox | None = None,
    progress: ReadingProgress | None = None,
    name: str | None = None,
    stop: threading.Event | None = None,
    seen: PageCallback | None = None,
    offers: bool = False,
) -> Reading:
    """Reads a path, or bytes with a `name`. A document that cannot be read does not raise: that is its `error`.

    Raises `ReaderLost` when the reading process was killed from outside, `Stopped` once another thread set `stop`.
    """
    started = time.monotonic()
    source = plain(source)
    reading = Reading(name or ("<bytes>" if isinstance(source, bytes) else str(os.fspath(source))))
    files = type_files(type, types)
    files, notes = (files, []) if type is not None else load_usable_types(files)
    pool = sandbox or default_sandbox()
    try:
        with open_document(
            source, sandbox=pool, limits=limits, password=password, ocr=ocr, name=name, stop=stop
        ) as document:  # fmt: skip
            reading = replace(reading, kind=document.header.kind.value, sha256=document.sha256)
            pages, text = _pages(document, words, progress, seen)
            header = document.header
        if all(page.source == "failed" for page in pages):
            first = pages[0] if pages else build_failed_page(1, "")
            raise Unreadable(first.error_code or "pdf_damaged", first.error or "")
        result = understand(pages, header, files, pool, limits, boosted=words, stop=stop, offers=offers)
        type_file = next((path for path in files if path.stem == result.type), None)
        if type_file is None and result.type is not None:
            raise Unreadable("reader_crashed", INVALID)
    except Unreadable as error:
        failure = {"code": error.code, "message": str(error), **translatable(message=str(error))}
        return replace(reading, kind=None, error=failure, seconds=_since(started))
    notes = [*header.notes, *notes, *result.notes]
    if not any(page.words for page in pages):
        notes.append(Message("note.no_text"))
    if type_file is None:
        notes.append(Message("note.no_type"))
    else:
        doctype = typefile.read_cached(type_file)
        reading = replace(reading, type_version=doctype.version, type_key=doctype.key)
    return replace(
        result, file=reading.file, kind=reading.kind, sha256=reading.sha256, pages=tuple(pages), notes=tuple(notes),
        text=text, issues=(*result.issues, *_find_damage(header, pages)), type_version=reading.type_version,
        type_key=reading.type_key, seconds=_since(started),
    )  # fmt: skip


def _find_damage(header: Header, pages: Sequence[Page]) -> list[Issue]:
    """Issues for damaged documents and pages, whose unread parts may contradict the fields."""
    issues = [Issue(DAMAGED, "warning", header.damage)] if header.damage else []
    for page in pages:
        if page.source == "failed":
            reason = page.error or Message("unreadable.no_reason")
            issues.append(Issue("page_failed", "warning", Message("note.page_failed", n=page.number, detail=reason)))
        elif page.damage:
            damage = Message("note.on_page", n=page.number, detail=page.damage) if len(pages) > 1 else page.damage
            issues.append(Issue(DAMAGED, "warning", damage))
    return issues


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)


def understand(
    pages: Sequence[Page],
    header: Header | None,
    types: Sequence[Path],
    sandbox: Sandbox,
    limits: Limits | None = None,
    *,
    boosted: bool = False,
    stop: threading.Event | None = None,
    offers: bool = False,
) -> Reading:
    """The fields and issues of pages, extracted in a child; the header has what is embedded in the document."""
    attachments = header.attachments if header else ()
    embedded = [[name, base64.b64encode(data).decode()] for name, data in attachments]
    relevant = _select_end_pages(pages)
    fitting = _select_fitting_pages(relevant, FRAME - REST - sum(len(data) for _, data in embedded))
    arguments = {
        "pages": [serialize_page(page) for page in fitting], "attachments": embedded,
        "claims": header.claims if header else None, "types": [str(path) for path in types], "boosted": boosted,
        "offers": offers,
    }  # fmt: skip
    result: dict[str, Any] = {}
    for message in sandbox.run(TASK, arguments, limits=limits, stop=stop):
        result = message
    try:
        return Reading(
            "", type=None if result["type"] is None else str(result["type"]), certainty=float(result.get("share", 1.0)),
            notes=(TRIMMED,) if len(fitting) < len(relevant) else (),
            fields={str(name): _field(data) for name, data in result["fields"].items()},
            issues=tuple(_issue(data) for data in result["issues"]), boosted=str(result.get("boosted", "")),
            changes=tuple((str(kind), str(before), str(after)) for kind, before, after in result.get("changes", ())),
            offers={
                str(name): [Alternative.from_dict(data) for data in alternatives]
                for name, alternatives in result.get("offers", {}).items()
            },
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable("reader_crashed", INVALID) from None


def type_files(kind: str | os.PathLike[str] | None, folders: Sequence[str | Path]) -> list[Path]:
    """The file of the requested type; without one all files, the invoice first as the most likely.

    The paths are absolute: children run in another folder.
    """
    found = typefile.available(folders)
    if isinstance(kind, str) and kind in found and found[kind].parent == typefile.SHIPPED:
        return [found[kind]]
    if kind is not None:
        return [Path(typefile.load(kind if isinstance(kind, str) else Path(kind), folders).file).absolute()]
    return sorted((path.absolute() for path in found.values()), key=lambda path: path.stem != "invoice")


def load_usable_types(files: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The valid type files, and a note for each invalid one: a mistake in one type must not stop all reading."""
    valid: list[Path] = []
    notes: list[str] = []
    for path in files:
        try:
            if path.parent != typefile.SHIPPED:
                typefile.read_cached(path)
            valid.append(path)
        except ConfigurationError as error:
            lines = str(error).splitlines()
            notes.append(Message("note.type_left_out", type=path.stem, detail=lines[1] if len(lines) > 1 else lines[0]))
    return valid, notes


def _pages(
    document: OpenDocument, words: bool, progress: ReadingProgress | None, seen: PageCallback | None
) -> tuple[list[Page], str]:  # fmt: skip
    """All pages; in a long document only the first and last keep their words."""
    pages: list[Page] = []
    texts: list[str] = []
    count = document.header.count
    for page in document:
        if seen:
            seen(page)
        if words:
            texts.append(page.text)
        elif len(pages) >= HEAD and page.number <= count - TAIL:
            page = replace(page, words=())
        pages.append(page)
        if progress:
            progress(page.number, count)
    return pages, "\n\n".join(texts)


def _select_end_pages(pages: Sequence[Page]) -> list[Page]:
    return [page for index, page in enumerate(pages) if page.words and (index < HEAD or index >= len(pages) - TAIL)]


def _select_fitting_pages(pages: Sequence[Page], most: int) -> list[Page]:
    """As many pages as fit in a message, from both ends inward, because fields are at the ends."""
    fitting: dict[int, Page] = {}
    for step in range(len(pages)):
        index = step // 2 if step % 2 == 0 else len(pages) - 1 - step // 2
        most -= sum(WORD_BYTES + len(word.text) * (1 if word.text.isascii() else 4) for word in pages[index].words)
        if most < 0:
            break
        fitting[index] = pages[index]
    return [fitting[index] for index in sorted(fitting)]


def _field(data: Mapping[str, Any]) -> Field:
    box = data["box"]
    return Field(
        value=data["value"], confidence=float(data["confidence"]), page=data["page"],
        box=None if box is None else (float(box[0]), float(box[1]), float(box[2]), float(box[3])), quote=data["quote"],
        source=str(data["source"]), reasons=tuple(map(str, restore_text(data, "reasons"))),
    )  # fmt: skip


def _issue(data: Mapping[str, Any]) -> Issue:
    severity = data["severity"]
    if severity not in ("error", "warning"):
        raise ValueError(severity)
    return Issue(
        str(data["code"]),
        severity,
        str(restore_text(data, "message")),
        tuple(map(str, data["fields"])),
        str(data["rule"] or ""),
    )
