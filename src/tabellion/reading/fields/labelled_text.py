"""The text of a document, prepared for the field readers: its lines, their labels, its dates' and numbers' notation."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tabellion.reading.fields.labels import Label, Lexicon
from tabellion.reading.fields.layout import Layout, Line, lay_out
from tabellion.reading.fields.values import DateOrder, date_order, decimal_mark, fold_in_place
from tabellion.reading.page import Page

_WORDS = {
    "fr": "le la les de du des et au aux facture date montant total ttc tva client sur pour par nous vous votre rue",
    "de": "der die das und von vom rechnung datum betrag summe mwst ust kunde fur zu bis netto nr bitte sie gmbh",
    "en": "the of and to invoice date amount total tax for your you by no please thank receipt cash change item qty",
}
_STATES = "al|ak|az|ca|co|ct|fl|ga|il|in|ma|md|mi|mn|mo|nc|nj|nv|ny|oh|or|pa|tn|tx|va|wa|wi"
#: Places and money of English-speaking countries that write the day first.
_DAY_FIRST = re.compile(
    r"\b(?:malaysia|sdn\.? ?bhd|kuala lumpur|selangor|johor|united kingdom|uk|london|vat|ireland|eircode|abn|"
    r"australia|rm|"
    r"singapore|india|new zealand|south africa|hong kong)\b|£|€|\bukp?\b"
)
_AMERICAN = re.compile(rf"\b(?:usa|united states|sales tax|[a-z]+,? (?:{_STATES}) \d{{5}})\b")
#: A line that opens the recipient's address in a letter.
_ADDRESSEE = re.compile(r"\W*(?:firma|herrn?|frau|familie|an die|an den|an|to|a l'attention de)\W*")


@dataclass(eq=False)
class LabelledText:
    """The text that every field is read from."""

    layout: Layout
    labels: list[Label]
    language: str
    mark: str  #: the decimal mark
    order: DateOrder
    plain: str  #: all text, folded
    order_guessed: bool = False  #: nothing in the document says which of day and month comes first
    on_line: dict[int, list[Label]] = field(init=False, default_factory=dict)  #: the labels by line number

    def __post_init__(self) -> None:
        for label in self.labels:
            self.on_line.setdefault(label.line.number, []).append(label)

    def find_labels(self, *fields: str) -> list[Label]:
        """The labels that announce any of these fields."""
        return [label for label in self.labels if label.field in fields]

    def free_until(self, label: Label) -> int:
        """Where the label's own part of its line ends: at the next label, or with the line."""
        starts = self._starts[label.line.number]
        place = bisect.bisect_right(starts, label.start)
        return starts[place] if place < len(starts) else len(label.line.text)

    @cached_property
    def _starts(self) -> dict[int, list[int]]:
        """By line number, the sorted starts of labels that end the part of the label before them."""
        return {
            number: sorted(label.start for label in labels if label.field or len(label.phrase) > 4)
            for number, labels in self.on_line.items()
        }

    def is_labelled(self, line: Line) -> bool:
        """Whether a line begins with a label of its own."""
        return any(label.leads for label in self.on_line.get(line.number, ()))

    @cached_property
    def customer_lines(self) -> set[int]:
        """The numbers of the lines in blocks that a customer's label heads."""
        numbers: set[int] = set()
        heads = [
            label for label in self.labels if label.field in ("customer", "vendor") and label.exact and announces(label)
        ]
        lines = [label.line for label in heads if label.field == "customer"]
        lines += [line for line in self.layout.lines if _ADDRESSEE.fullmatch(fold_in_place(line.text))]
        for line in lines:
            numbers.add(line.number)
            right = min(
                (
                    other.line.box[0]
                    for other in heads
                    if other.line in self.layout.row(line) and other.line.box[0] > line.box[0]
                ),
                default=1.0,
            )
            last = line.box[3]
            for row in self.layout.rows[self.layout.place(line) + 1 :]:
                block = [part for part in row if line.box[0] - 0.03 <= part.box[0] < min(right, line.box[0] + 0.42)]
                if row[0].page != line.page or (
                    block and block[0].box[1] - last > 2.6 * max(line.height, block[0].height)
                ):
                    break
                if any(other.line in block for other in heads):
                    break
                for part in block:
                    numbers.add(part.number)
                    last = max(last, part.box[3])
        return numbers


def announces(label: Label) -> bool:
    """Whether a label announces what follows: alone on its line, or before a colon."""
    rest = label.line.text[label.end :].strip()
    return label.leads and (not re.search(r"\w", rest) or rest[0] in ":/(")


def label_text(pages: Sequence[Page], lexicon: Lexicon, order: DateOrder | None = None) -> LabelledText:
    """Lays the pages out and finds every label."""
    layout = lay_out(pages)
    texts = [line.text for line in layout.lines]
    plain = fold_in_place("\n".join(texts))
    language = language_of(plain)
    plain_order = date_order(texts, "ymd")
    american = language == "en" and bool(_AMERICAN.search(plain))
    return LabelledText(
        layout=layout,
        labels=[label for line in layout.lines for label in lexicon.find(line)],
        language=language,
        mark=decimal_mark(texts),
        order=order or date_order(texts, "mdy" if american else "dmy"),
        plain=plain,
        order_guessed=order is None
        and plain_order == "ymd"
        and language == "en"
        and not (american or _DAY_FIRST.search(plain)),
    )


def language_of(plain: str) -> str:
    """English, French or German, by frequent words; English where nothing decides."""
    words = re.findall(r"[^\W\d_]+", plain)
    counts = {name: sum(map(set(known.split()).__contains__, words)) for name, known in _WORDS.items()}
    return max(("en", "fr", "de"), key=lambda name: counts[name])
