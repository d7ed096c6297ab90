"""Sample documents, made when they are asked for: letters, receipts, scans, copies, and some that nobody can read."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from tabellion.pipelines.documents import bills
from tabellion.pipelines.documents.pdf_writer import Paper

if TYPE_CHECKING:
    from PIL import Image

DPI = 150
PASSWORD = "open sesame"  # noqa: S105 - of a sample that nobody is to read

Ending = Literal["completed", "duplicate", "failed", "refused"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One file: what it is called, what is in it, and what should come of it."""

    name: str
    content: bytes = field(repr=False)
    type: str | None = None
    truth: Mapping[str, str] = field(default_factory=dict)  #: fields and their values, as a reader should tell them
    ending: Ending = "completed"  #: refused: it is not even taken in
    why: str = ""  #: the error's code, where there is one
    scanned: bool = False


def samples(seed: int = 2026, *, scans: bool = True) -> list[Sample]:
    """Some forty documents, always the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - invention, not secrets
    made = [*_letters(chance), *_receipts(chance)]
    if scans:
        made += _scans(chance)
    made += _copies(made)
    made += _broken(made[0].content)
    return made


def many(count: int, seed: int = 2026) -> Iterator[Sample]:
    """As many different letters as one likes, without scans; every tenth a copy, every twentieth broken."""
    chance = random.Random(seed)  # noqa: S311
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
            last = Sample(f"bill-{number:04}.pdf", bills.invoice(bill, number % 3).written(), "invoice", bill.truth)
            yield last


def _letters(chance: random.Random) -> Iterator[Sample]:
    for kind, count in (("en", 7), ("fr", 5), ("qc", 4), ("de", 5)):
        for number in range(count):
            bill = bills.invent(kind, chance)
            yield Sample(
                f"{kind}-invoice-{number + 1}.pdf", bills.invoice(bill, number % 3).written(), "invoice", bill.truth
            )
    long = bills.invent("en", chance, rows=40)
    yield Sample("en-invoice-two-pages.pdf", bills.invoice(long).written(), "invoice", long.truth)
    wrong = replace(bills.invent("de", chance), slip=Decimal("10.00"))
    yield Sample("de-invoice-wrong-total.pdf", bills.invoice(wrong).written(), "invoice", wrong.truth)
    electronic = bills.invent("fr", chance)
    yield Sample("fr-facturx.pdf", bills.facturx(electronic).written(), "invoice", electronic.truth)


def _receipts(chance: random.Random) -> Iterator[Sample]:
    for number, kind in enumerate(("en", "en", "qc")):
        bill = bills.invent(kind, chance)
        truth = {name: value for name, value in bill.truth.items() if name != "due_date"}
        yield Sample(f"{kind}-receipt-{number + 1}.pdf", bills.receipt(bill).written(), "receipt", truth)


def _scans(chance: random.Random) -> Iterator[Sample]:
    for number, kind in enumerate(("en", "fr", "de", "qc")):
        bill = bills.invent(kind, chance, rows=2)
        image = scanned(bills.invoice(bill, number % 3), chance)
        stream = io.BytesIO()
        if kind == "de":
            image.save(stream, "PNG")
            name, content = "de-scan.png", stream.getvalue()
        elif kind == "fr":
            image.convert("RGB").save(stream, "JPEG", quality=80)
            paper = Paper()
            paper.picture(stream.getvalue(), image.size)
            name, content = "fr-scan.pdf", paper.written()
        else:
            image.save(stream, "JPEG", quality=70, dpi=(DPI, DPI))
            name, content = f"{kind}-scan.jpg", stream.getvalue()
        yield Sample(name, content, "invoice", bill.truth, scanned=True)


def scanned(paper: Paper, chance: random.Random) -> Image.Image:
    """The first page as a scanner sees it: a little askew, grey, grainy."""
    import pypdfium2
    from PIL import Image, ImageChops, ImageFilter

    document = pypdfium2.PdfDocument(paper.written())
    try:
        clean = document[0].render(scale=DPI / 72).to_pil().convert("L")
    finally:
        document.close()
    askew = clean.rotate(chance.uniform(-1.2, 1.2), Image.Resampling.BICUBIC, fillcolor=255)
    soft = askew.filter(ImageFilter.GaussianBlur(0.5))
    grain = Image.frombytes("L", soft.size, chance.randbytes(soft.width * soft.height)).point(lambda one: one // 10)
    return ImageChops.subtract(soft, grain)


def _copies(made: list[Sample]) -> Iterator[Sample]:
    for number, place in enumerate((0, 8, 13, 22)):
        one = made[place]
        yield Sample(f"copy-{number + 1}-of-{one.name}", one.content, one.type, one.truth, "duplicate")


def _broken(whole: bytes) -> Iterator[Sample]:
    yield Sample("empty.pdf", b"", ending="refused", why="empty_file")
    yield Sample("notes.pdf", b"These are notes, whatever they are called.\n", ending="refused", why="type_unsupported")
    yield Sample("truncated.pdf", whole[: len(whole) // 5], ending="failed", why="pdf_damaged")
    locked = Paper()
    locked.text(56, 62, "Nobody reads this without the password.", 14)
    yield Sample("locked.pdf", locked.written(PASSWORD), ending="failed", why="pdf_encrypted")
    yield Sample(
        "torn.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01" + b"\x00" * 200, ending="failed", why="image_damaged"
    )
