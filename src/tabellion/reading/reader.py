"""Reads a document with no key and no network: its pages, its fields, and what is wrong with them.

reading = read_local("invoice.pdf")
print(reading.fields["total"].value, reading.fields["total"].confidence)
"""

from __future__ import annotations

import base64
import functools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tabellion.errors import ConfigurationError
from tabellion.messages import Message, restore_text, translatable
from tabellion.reading.alternative import Alternative, Offers
from tabellion.reading.child import FRAME
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.errors import INVALID, Unreadable
from tabellion.reading.field import Field
from tabellion.reading.issue import Issue
from tabellion.reading.limits import Limits
from tabellion.reading.page import Page, serialize_page
from tabellion.reading.pages import OCR, Document, Header, Source, build_failed_page, open_document, plain
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.types import typefile
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.rules import verdict

TASK = "tabellion.reading.work:read"  #: named, not imported: only children load the field reader
#: Fields stand on the first pages, and sums on the last: the words of what lies between are not kept for them.
HEAD, TAIL = 30, 5
#: What a word takes in a message beside its letters, at most; and what a message holds beside pages and embedded files.
WORD_BYTES, REST = 64, 256 << 10
DAMAGED = "damaged"  #: the code of an issue: it was read, and something of it may be missing
TRIMMED = Message("note.too_many_words")

Progress = Callable[[int, int], None]  #: pages read, pages there are
Seen = Callable[[Page], None]  #: a page with all its words, as soon as it is read


@dataclass(frozen=True, slots=True)
class Reading:
    """What a document says."""

    file: str
    type: str | None = None
    certainty: float = 1.0  #: how much of the evidence speaks for the type, where it was found out
    kind: str | None = None  #: what the bytes are: pdf, png, …
    pages: tuple[Page, ...] = field(default=(), repr=False)
    fields: dict[str, Field] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()
    notes: tuple[str, ...] = ()
    error: Mapping[str, Any] | None = None  #: {"code", "message"} where nothing could be read
    text: str = field(default="", repr=False)  #: as it was read, when words are asked for
    boosted: str = field(default="", repr=False)  #: the same with what OCR and typesetting broke mended
    changes: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)  #: each mending: kind, before, after
    model: str | None = None
    cost: float | None = None
    type_version: str | None = None
    type_key: str | None = None  #: the type's version and digest: what was read by another is to be read again
    sha256: str | None = None  #: of the document's bytes
    offers: Offers = field(default_factory=dict, repr=False)  #: other values, when they are asked for
    seconds: float | None = None  #: that reading took, on the clock

    @property
    def verdict(self) -> str:
        """accept, warn or reject, by the worst of the issues; nothing is accepted that nobody knows or could read."""
        if self.error:
            return "reject"
        judged = verdict(self.issues)
        return "warn" if judged == "accept" and (self.type is None or self._blank) else judged

    @property
    def _blank(self) -> bool:
        """Whether there are pages and nothing on any of them."""
        return bool(self.pages) and not self.fields and not any(page.words for page in self.pages)

    def as_dict(self, *, words: bool = False) -> dict[str, Any]:
        """As JSON tells it; with the text and every word if asked for."""
        told: dict[str, Any] = {
            "file": self.file, "sha256": self.sha256, "type": self.type, "type_version": self.type_version,
            "type_key": self.type_key, "kind": self.kind, "verdict": self.verdict, "seconds": self.seconds,
            "pages": [page.summary() for page in self.pages],
            "fields": {name: one.as_dict() for name, one in self.fields.items()},
            "issues": [issue.as_dict() for issue in self.issues], "notes": list(self.notes),
            **translatable(notes=self.notes),
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

    told = as_dict  #: the former name


def read_local(
    source: Source,
    type: str | os.PathLike[str] | None = None,  # noqa: A002 - the word for it everywhere
    *,
    password: str | None = None,
    ocr: OCR = "auto",
    types: Sequence[str | Path] = (typefile.FOLDER,),
    words: bool = False,
    limits: Limits | None = None,
    sandbox: Sandbox | None = None,
    progress: Progress | None = None,
    name: str | None = None,
    stop: threading.Event | None = None,
    seen: Seen | None = None,
    offers: bool = False,
) -> Reading:
    """Reads a path or bytes, which `name` names. Never raises for what is wrong with the document: that is its `error`.

    Raises `ReaderLost` when somebody else killed the process that read it, `Stopped` once another thread set `stop`.
    """
    began = time.monotonic()
    source = plain(source)
    made = Reading(name or ("<bytes>" if isinstance(source, bytes) else str(os.fspath(source))))
    files = type_files(type, types)
    files, notes = (files, []) if type is not None else usable(files)
    pool = sandbox or default_sandbox()
    try:
        with open_document(
            source, sandbox=pool, limits=limits, password=password, ocr=ocr, name=name, stop=stop
        ) as document:  # fmt: skip
            made = replace(made, kind=document.header.kind.value, sha256=document.sha256)
            pages, text = _pages(document, words, progress, seen)
            header = document.header
        if all(page.source == "failed" for page in pages):
            first = pages[0] if pages else build_failed_page(1, "")
            raise Unreadable(first.error_code or "pdf_damaged", first.error or "")
        said = understand(
            pages, header.attachments, header.claims, files, pool, limits, boosted=words, stop=stop, offers=offers
        )  # fmt: skip
        used = next((path for path in files if path.stem == said.type), None)
        if used is None and said.type is not None:
            raise Unreadable("reader_crashed", INVALID)
    except Unreadable as error:
        failure = {"code": error.code, "message": str(error), **translatable(message=str(error))}
        return replace(made, kind=None, error=failure, seconds=_since(began))
    notes = [*header.notes, *notes, *said.notes]
    if not any(page.words for page in pages):
        notes.append(Message("note.no_text"))
    if used is None:
        notes.append(Message("note.no_type"))
    else:
        doctype = _load_type(used)
        made = replace(made, type_version=doctype.version, type_key=doctype.key)
    return replace(
        said, file=made.file, kind=made.kind, sha256=made.sha256, pages=tuple(pages), notes=tuple(notes), text=text,
        issues=(*said.issues, *_find_damage(header, pages)), type_version=made.type_version, type_key=made.type_key,
        seconds=_since(began),
    )  # fmt: skip


def _find_damage(header: Header, pages: Sequence[Page]) -> list[Issue]:
    """What nobody could read may have said something else."""
    issues = [Issue(DAMAGED, "warning", header.damage)] if header.damage else []
    for page in pages:
        if page.source == "failed":
            why = page.error or Message("unreadable.no_reason")
            issues.append(Issue("page_failed", "warning", Message("note.page_failed", n=page.number, detail=why)))
        elif page.damage:
            where = Message("note.on_page", n=page.number, detail=page.damage) if len(pages) > 1 else page.damage
            issues.append(Issue(DAMAGED, "warning", where))
    return issues


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)


def understand(
    pages: Sequence[Page],
    attachments: Sequence[tuple[str, bytes]],
    claims: Mapping[str, Mapping[str, str]] | None,
    types: Sequence[Path],
    sandbox: Sandbox,
    limits: Limits | None = None,
    *,
    boosted: bool = False,
    stop: threading.Event | None = None,
    offers: bool = False,
) -> Reading:
    """The fields and issues of pages that were read, from a child."""
    embedded = [[name, base64.b64encode(data).decode()] for name, data in attachments]
    telling = _telling(pages)
    fitting = _fitting(telling, FRAME - REST - sum(len(data) for _, data in embedded))
    arguments = {
        "pages": [serialize_page(page) for page in fitting], "attachments": embedded,
        "claims": claims, "types": [str(path) for path in types], "boosted": boosted,
        "offers": offers,
    }  # fmt: skip
    said: dict[str, Any] = {}
    for message in sandbox.run(TASK, arguments, limits=limits, stop=stop):
        said = message
    try:
        return Reading(
            "", type=None if said["type"] is None else str(said["type"]), certainty=float(said.get("share", 1.0)),
            notes=(TRIMMED,) if len(fitting) < len(telling) else (),
            fields={str(name): _field(told) for name, told in said["fields"].items()},
            issues=tuple(_issue(told) for told in said["issues"]), boosted=str(said.get("boosted", "")),
            changes=tuple((str(kind), str(before), str(after)) for kind, before, after in said.get("changes", ())),
            offers={
                str(name): [Alternative.from_dict(one) for one in some] for name, some in said.get("offers", {}).items()
            },
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable("reader_crashed", INVALID) from None


def type_files(kind: str | os.PathLike[str] | None, folders: Sequence[str | Path]) -> list[Path]:
    """The file of the type that is asked for; all there are when none is, the invoice first: it is the likeliest.

    Their paths are absolute: children were started elsewhere.
    """
    found = typefile.available(folders)
    if isinstance(kind, str) and kind in found and found[kind].parent == typefile.SHIPPED:
        return [found[kind]]
    if kind is not None:
        return [Path(typefile.load(kind if isinstance(kind, str) else Path(kind), folders).file).absolute()]
    return sorted((path.absolute() for path in found.values()), key=lambda path: path.stem != "invoice")


def usable(files: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The files that hold a type, and a note for each that does not: one with a mistake must not stop all reading."""
    kept: list[Path] = []
    notes: list[str] = []
    for path in files:
        try:
            if path.parent != typefile.SHIPPED:
                _load_type(path)
            kept.append(path)
        except ConfigurationError as error:
            what = str(error).splitlines()
            notes.append(Message("note.type_left_out", type=path.stem, detail=what[1] if len(what) > 1 else what[0]))
    return kept, notes


def _load_type(path: Path) -> DocumentType:
    try:
        status = path.stat()
    except OSError:
        return typefile.read(path)  # says what is wrong
    return _load_type_cached(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _load_type_cached(path: Path, _changed: int, _size: int) -> DocumentType:
    return typefile.read(path)


def _pages(
    document: Document, words: bool, progress: Progress | None, seen: Seen | None
) -> tuple[list[Page], str]:  # fmt: skip
    """All pages; of a long document only those that fields stand on keep their words."""
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


def _telling(pages: Sequence[Page]) -> list[Page]:
    return [page for place, page in enumerate(pages) if page.words and (place < HEAD or place >= len(pages) - TAIL)]


def _fitting(pages: Sequence[Page], most: int) -> list[Page]:
    """As many pages as a message holds: from both ends inward, for that is where fields stand."""
    kept: dict[int, Page] = {}
    for step in range(len(pages)):
        place = step // 2 if step % 2 == 0 else len(pages) - 1 - step // 2
        most -= sum(WORD_BYTES + len(word.text) * (1 if word.text.isascii() else 4) for word in pages[place].words)
        if most < 0:
            break
        kept[place] = pages[place]
    return [kept[place] for place in sorted(kept)]


def _field(told: Mapping[str, Any]) -> Field:
    box = told["box"]
    return Field(
        value=told["value"], confidence=float(told["confidence"]), page=told["page"],
        box=None if box is None else (float(box[0]), float(box[1]), float(box[2]), float(box[3])), quote=told["quote"],
        source=str(told["source"]), reasons=tuple(map(str, restore_text(told, "reasons"))),
    )  # fmt: skip


def _issue(told: Mapping[str, Any]) -> Issue:
    severity = told["severity"]
    if severity not in ("error", "warning"):
        raise ValueError(severity)
    return Issue(
        str(told["code"]),
        severity,
        str(restore_text(told, "message")),
        tuple(map(str, told["fields"])),
        str(told["rule"] or ""),
    )
