"""Line items: the table between its heading and its sums, row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise

from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.values import Amount, amounts, digits, fold_in_place, money
from tabellion.reading.page import Box, around

#: Words of a table's heading, and the column they head.
HEADINGS = {
    "description": "description designation article artikel artikelbeschreibung beschreibung bezeichnung produkt "
    "product item "
    "items item/desc libelle leistung details particulars detail prestation prestations nom service services goods "
    "itern",
    "quantity": "qty quantity qte quantite menge anzahl quant qnty stk unites quantites",
    "unit_price": "price preis prix einzelpreis nettopreis unit u/p uprice u.price pu p.u p.u. rsp s/price rate "
    "tarif e-preis stueckpreis preis/ "
    "einzelpreis/ prix unitaire u/price",
    "tax_rate": "tva vat ust steuer mwst gst tax steuersatz taux ust.",
    "amount": "amount betrag total gesamt gesamtbetrag montant entgelt nettobetrag gesamtpreis amt summe rm(total) "
    "somme linetotal value "
    "gesamtnetto positionssumme amount(rm) amt(rm) total(rm) netto zeilensumme",
    "position": "pos pos. position nr no # ligne line",
}
_QUALIFIERS = frozenset(
    ("inc", "incl", "inkl", "excl", "exkl", "exc", "ht", "ttc", "of", "de")
)  # "Total inc GST" is one heading
_MONEY_HEADS = frozenset(("eur", "usd", "chf", "gbp", "cad", "rm", "myr", "€", "$", "£", "aud"))
_KIND = {word: kind for kind, words in HEADINGS.items() for word in words.split()}
#: Rows of a table that are not items: allowances, charges, carried sums.
_NOT_ITEMS = re.compile(
    r"^\W*(?:\S{1,4}\s)?(?:remise|rabais|rabatt|discount|charge|frais|fracht\w*|versand\w*|zuschlag|port|shipping|"
    r"delivery ch|abschlag|skonto|escompte|uebertrag|ubertrag|"
    r"report|a reporter|carried|rounding|service ch)\b"
)
_CARRIED = re.compile(r"carried|brought forward|a reporter|\breport\b|ubertrag|zwischensumme|sous-total")
FAR = 0.12  # of a page's height: a row this far below the last one does not belong to the table
_ENDS = {"subtotal", "total", "tax", "tendered", "due", "paid"}


@dataclass(slots=True)
class LineItem:
    """One line of a bill."""

    amount: Decimal
    box: Box
    page: int
    description: str = ""
    quantity: Decimal | None = None
    unit_price: Decimal | None = None
    tax_rate: Decimal | None = None
    checked: bool = False  #: quantity times price is the amount
    lines: list[Line] = field(default_factory=list)

    def as_dict(self) -> dict[str, str | None]:
        """The item as a field value: strings, with null for what was not found."""
        return {
            "description": self.description or None,
            "quantity": None if self.quantity is None else digits(self.quantity),
            "unit_price": None if self.unit_price is None else money(self.unit_price),
            "amount": money(self.amount),
            "tax_rate": None if self.tax_rate is None else digits(self.tax_rate),
        }


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table by its heading."""

    kind: str
    left: float
    right: float


def read_items(doc: LabelledText) -> list[LineItem]:
    """The items of the best table: its amounts add up to a sum printed below it, then most rows multiply correctly."""
    best: tuple[tuple[bool, float], list[LineItem]] | None = None
    tables = _join_tables(
        [(columns, items) for place, columns in _headings(doc) if (items := list(_items(doc, place, columns)))]
    )
    for items in tables:
        total = sum((item.amount for item in items), Decimal())
        last = max(line.number for line in items[-1].lines)
        proven = any(
            amount.value == total for line in doc.layout.lines if line.number > last for amount in _money(line, doc)
        )
        rank = (proven and total > 0, sum(item.checked for item in items) / len(items))
        if best is None or rank > best[0]:
            best = rank, items
    return best[1] if best else []


def _join_tables(tables: list[tuple[list[TableColumn], list[LineItem]]]) -> list[list[LineItem]]:
    """Joins tables that continue on the next page, with the same headings at the same positions."""
    joined: list[list[LineItem]] = []
    heads: list[list[TableColumn]] = []
    for columns, items in tables:
        if joined and items[0].page > joined[-1][-1].page and _alike(heads[-1], columns):
            joined[-1] += items
        else:
            joined.append(items)
            heads.append(columns)
    return joined


def _alike(first: list[TableColumn], second: list[TableColumn]) -> bool:
    kinds = {(column.kind, round(column.right, 1)) for column in first}
    return len(kinds & {(column.kind, round(column.right, 1)) for column in second}) >= 0.6 * len(kinds)


def _headings(doc: LabelledText) -> Iterator[tuple[int, list[TableColumn]]]:
    """Rows that head a table: at least two kinds of columns, one of them money; headings may take several rows."""
    rows = doc.layout.rows
    for place in range(len(rows)):
        columns = columns_of(rows[place])
        if not columns:
            continue
        last = place
        for ahead in range(place + 1, min(place + 4, len(rows))):
            more = columns_of(rows[ahead])
            near = rows[ahead][0].page == rows[place][0].page and rows[ahead][0].box[1] - rows[last][0].box[3] < 0.012
            if not more or not near or any(_money(line, doc) for line in rows[ahead]):
                break
            columns += more
            last = ahead
        if not any(column.kind == "amount" for column in columns):
            columns = [*columns, *_currency_column(rows[place])]
        money = [column for column in columns if column.kind == "amount"]
        columns = [column for column in columns if column.kind != "tax_rate" or not _under_any(column, money)]
        kinds = {column.kind for column in columns}
        if len(kinds) >= 2 and kinds & {"amount", "unit_price"} and not kinds <= {"amount", "tax_rate"}:
            yield last, columns


def _under_any(column: TableColumn, others: Sequence[TableColumn]) -> bool:
    return any(other.left < column.right and column.left < other.right for other in others)


def _currency_column(row: Sequence[Line]) -> list[TableColumn]:
    """The amount column, where the last heading is only a currency ("EUR")."""
    last = max(row, key=lambda line: line.box[2]).words[-1]
    return (
        [TableColumn("amount", last.box[0], last.box[2])]
        if fold_in_place(last.text).strip("()") in _MONEY_HEADS
        else []
    )


def columns_of(row: Sequence[Line]) -> list[TableColumn]:
    """The headings of a row."""
    found: list[TableColumn] = []
    for line in row:
        fresh, before = False, ""
        for word in line.words:
            plain = fold_in_place(word.text).strip(":;,().")
            kind = None if before in _QUALIFIERS and fresh else _kind_of(plain)
            before = plain
            if kind:
                found.append(TableColumn(kind, word.box[0], word.box[2]))
                fresh = True
            elif fresh:
                found[-1] = TableColumn(found[-1].kind, found[-1].left, word.box[2])
    return found


def heads_a_column(text: str) -> bool:
    """Whether a text is nothing but the heading of a column."""
    return fold_in_place(text).strip(" .:") in _KIND


def _kind_of(plain: str) -> str | None:
    """The kind of column that a word heads, also as the last part of a compound: "USt.-Betrag", "Amount(RM)"."""
    if kind := _KIND.get(plain) or _KIND.get(plain.strip(" .:")):
        return kind
    parts = [part for part in re.split(r"[()/.-]+", plain) if part]
    return next((_KIND[part] for part in reversed(parts) if part in _KIND), None) if len(parts) > 1 else None


def _items(doc: LabelledText, heading: int, columns: list[TableColumn]) -> Iterator[LineItem]:
    rows = doc.layout.rows
    money = [column for column in columns if column.kind == "amount"]
    target = max(money, key=lambda column: column.right) if money else max(columns, key=lambda column: column.right)
    pending: list[Line] = []
    lowest = max(line.box[3] for line in rows[heading])
    page = rows[heading][0].page
    for place in range(heading + 1, len(rows)):
        row = rows[place]
        if row[0].page != page:
            page = row[0].page
            lowest = 1.0
            if len({column.kind for column in columns_of(row)} & {column.kind for column in columns}) >= 2:
                continue
        if lowest < 1.0 and row[0].box[1] - lowest > FAR:
            break
        lowest = max(line.box[3] for line in row)
        if _ends_table(doc, row, columns, target) or (place > heading + 1 and _heads_another(row)):
            break
        amount = _amount_in(row, target, doc, columns)
        if amount is None:
            pending += row
            continue
        described = fold_in_place(" ".join(line.text for line in row if line.box[0] < target.left))
        item = _item(row, amount, pending, doc, columns)
        if _CARRIED.search(described) or (_NOT_ITEMS.match(described) and not item.checked):
            continue
        yield item
        pending = []


def _heads_another(row: Sequence[Line]) -> bool:
    """Whether another table begins with this row."""
    kinds = {column.kind for column in columns_of(row)}
    return (
        len(kinds) >= 2
        and bool(kinds & {"amount", "tax_rate"})
        and not any(re.search(r"\d", line.text) for line in row)
    )


def _ends_table(doc: LabelledText, row: Sequence[Line], columns: list[TableColumn], target: TableColumn) -> bool:
    """Whether the row begins with a sum's label, which ends the table.

    A lone "net" may belong to an item, and so may "City tax 6 × 1.65".
    """
    amount = _amount_in(row, target, doc, columns)
    if amount is not None and _item(row, amount, [], doc, columns).checked:
        return False
    return any(_money(line, doc) for line in row) and any(
        label.leads
        and label.field in _ENDS
        and label.exact
        and len(label.phrase) > 3
        and not re.match(r"\s*\d", label.line.text)
        for line in row
        for label in doc.on_line.get(line.number, ())
    )


def _money(line: Line, doc: LabelledText) -> list[Amount]:
    return [amount for amount in amounts(line.text, doc.mark) if not amount.percent and amount.decimals == 2]


def _amount_in(
    row: Sequence[Line], target: TableColumn, doc: LabelledText, columns: list[TableColumn]
) -> tuple[Line, Amount] | None:
    """The money in the amount column: under its heading, nearer to it than to any other."""
    best: tuple[float, Line, Amount] | None = None
    for line in row:
        for amount in _money(line, doc):
            box = line.box_at(amount.start, amount.end)
            apart = _apart(box, target)
            if apart > 0.035 or any(
                _apart(box, other) < apart for other in columns if other.kind in ("unit_price", "quantity", "tax_rate")
            ):
                continue
            if best is None or apart < best[0]:
                best = (apart, line, amount)
    return (best[1], best[2]) if best else None


def _apart(box: Box, column: TableColumn) -> float:
    """Distance of a value from a column: near zero when they overlap, else between their nearest edges."""
    overlap = min(box[2], column.right) - max(box[0], column.left)
    if overlap > 0:
        return min(abs(box[2] - column.right), abs(box[0] - column.left)) * 0.1
    return min(abs(box[2] - column.right), abs(box[0] - column.left), -overlap)


def _item(
    row: Sequence[Line],
    position: tuple[Line, Amount],
    pending: list[Line],
    doc: LabelledText,
    columns: list[TableColumn],
) -> LineItem:
    line, amount = position
    item = LineItem(amount.value, around([other.box for other in row]), line.page, lines=[*row])
    numbers: list[tuple[str, Decimal]] = []
    for other in row:
        for number in amounts(other.text, doc.mark):
            if other is line and number.start == amount.start:
                continue
            if number.percent:
                item.tax_rate = number.value if item.tax_rate is None else item.tax_rate
            else:
                numbers.append((_nearest(other.box_at(number.start, number.end), columns), number.value))
    for quantity, price in _factors(numbers):
        if quantity > 0 and abs(quantity * price - amount.value) <= Decimal("0.011") * max(Decimal(1), abs(quantity)):
            item.quantity, item.unit_price, item.checked = quantity, price, True
            break
    else:
        item.quantity = next((value for kind, value in numbers if kind == "quantity"), None)
        item.unit_price = next((value for kind, value in numbers if kind == "unit_price"), None)
    item.description = _description(row, pending, line, columns)
    return item


def _factors(numbers: list[tuple[str, Decimal]]) -> Iterator[tuple[Decimal, Decimal]]:
    """Pairs that may be quantity and price, first those from columns with these headings."""
    yield from (
        (quantity, price)
        for kind, quantity in numbers
        if kind == "quantity"
        for other_kind, price in numbers
        if other_kind == "unit_price"
    )
    values = [value for _, value in numbers]
    yield from pairwise(values)
    yield from ((second, first) for first, second in pairwise(values))


def _nearest(box: Box, columns: list[TableColumn]) -> str:
    middle = (box[0] + box[2]) / 2
    return min(columns, key=lambda column: abs((column.left + column.right) / 2 - middle)).kind


def _description(row: Sequence[Line], pending: list[Line], line: Line, columns: list[TableColumn]) -> str:
    """The words under the description's heading, up to the next column; else the longest words of the row."""
    heads = [column for column in columns if column.kind == "description"]
    if heads:
        left = min(column.left for column in heads)
        right = min(
            (
                column.left
                for column in columns
                if column.kind not in ("description", "position") and column.left > left
            ),
            default=1.0,
        )
        words = [word.text for part in row for word in part.words if left - 0.03 <= word.box[0] < right - 0.005]
        if text := _letters(" ".join(words)):
            return text[:200]
    texts = [_letters(part.text) for part in row if part is not line] + [_letters(part.text) for part in pending[-2:]]
    return max([*texts, _letters(line.text)], key=len, default="")[:200] or " ".join(part.text for part in row)[:200]


def _letters(text: str) -> str:
    """The text without its leading position number; empty where it has no word."""
    bare = re.sub(r"^\d{1,3}\s+(?=\D)", "", text).strip()
    return bare if re.search(r"[^\W\d_]{2}", bare) else ""
