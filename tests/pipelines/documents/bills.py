"""Invented invoices: their content and their layout."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal

from tests.pipelines.documents.pdf_writer import Paper

CENT = Decimal("0.01")
FIRST_DAY = date(2026, 1, 5)
ROWS_ON_A_PAGE = 24


@dataclass(frozen=True, slots=True)
class Country:
    """How bills of one country are written."""

    words: tuple[str, ...]  #: title, number, date, due, customer, description, quantity, price, amount, subtotal, total
    vendors: tuple[tuple[str, str, str], ...]  #: name, street, town
    customers: tuple[tuple[str, str, str], ...]
    goods: tuple[tuple[str, str], ...]  #: what, and about what it costs
    taxes: tuple[tuple[str, str], ...]  #: name on paper, percent
    currency: str
    money: Callable[[Decimal], str]
    day: Callable[[date], str]
    prefix: str


@dataclass(frozen=True, slots=True)
class Bill:
    """One bill with everything on it."""

    country: Country
    vendor: tuple[str, str, str]
    customer: tuple[str, str, str]
    number: str
    issued: date
    due: date
    rows: tuple[tuple[str, int, Decimal], ...]  #: what, how many, the price of one
    slip: Decimal = Decimal(0)  #: by how much the printed total is wrong

    @property
    def subtotal(self) -> Decimal:
        """The amount before tax."""
        return sum((price * count for _, count, price in self.rows), Decimal(0)).quantize(CENT)

    @property
    def taxes(self) -> tuple[tuple[str, Decimal], ...]:
        """Each tax as printed, with its amount."""
        return tuple((f"{name} {rate} %", _share(self.subtotal, rate)) for name, rate in self.country.taxes)

    @property
    def tax(self) -> Decimal:
        """All taxes together."""
        return sum((amount for _, amount in self.taxes), Decimal(0)).quantize(CENT)

    @property
    def total(self) -> Decimal:
        """The amount to pay, as printed."""
        return self.subtotal + self.tax + self.slip

    @property
    def truth(self) -> dict[str, str]:
        """The values a reader should find."""
        return {
            "vendor": self.vendor[0], "invoice_number": self.number, "invoice_date": self.issued.isoformat(),
            "due_date": self.due.isoformat(), "currency": self.country.currency, "subtotal": f"{self.subtotal}",
            "tax": f"{self.tax}", "total": f"{self.total}",
        }  # fmt: skip


def _share(amount: Decimal, percent: str) -> Decimal:
    return (amount * Decimal(percent.replace(",", ".")) / 100).quantize(CENT, ROUND_HALF_UP)


def _english(amount: Decimal) -> str:
    return f"{amount:,.2f}"


def _continental(gap: str) -> Callable[[Decimal], str]:
    return lambda amount: f"{amount:,.2f}".replace(",", "_").replace(".", ",").replace("_", gap)


def _dotted(day: date) -> str:
    return f"{day:%d.%m.%Y}"


COUNTRIES: dict[str, Country] = {
    "en": Country(
        ("INVOICE", "Invoice number", "Invoice date", "Due date", "Bill to", "Description", "Qty", "Unit price",
         "Amount", "Subtotal", "Total"),
        (("Harrow & Finch Ltd", "14 Mill Lane", "Leeds LS1 4DY"), ("Brackwater Tools Ltd", "2 Dock Road",
         "Bristol BS1 6XN"), ("Osprey Print Works Ltd", "88 Station Street", "Norwich NR1 1EF")),
        (("Meadow Dental Practice", "5 Green Court", "York YO1 7HH"), ("Tide Hotel Group", "1 Harbour View",
         "Whitby YO21 3PB")),
        (("Oak shelf, planed", "42.50"), ("Installation, per hour", "55.00"), ("Brass hinge, pair", "7.80"),
         ("Delivery", "18.00"), ("Letterhead, box of 500", "36.40"), ("Cordless drill, hire per day", "12.75")),
        (("VAT", "20"),), "GBP", _english, lambda day: f"{day.day} {day:%B %Y}", "INV-",
    ),
    "fr": Country(
        ("FACTURE", "Facture n°", "Date de facture", "Échéance", "Client", "Désignation", "Qté", "Prix unitaire",
         "Montant", "Total HT", "Total TTC"),
        (("Menuiserie Delorme SARL", "12 rue des Tanneurs", "69005 Lyon"), ("Imprimerie du Canal SAS",
         "3 quai Voltaire", "31000 Toulouse"), ("Boulangerie Vasseur SARL", "27 avenue Foch", "59000 Lille")),
        (("Cabinet Mercier", "8 place du Marché", "38000 Grenoble"), ("Hôtel des Brumes", "1 chemin du Lac",
         "74000 Annecy")),
        (("Étagère en chêne", "64,00"), ("Pose, à l'heure", "48,00"), ("Dépliants, le mille", "112,50"),
         ("Livraison", "22,00"), ("Pain de campagne", "4,20")),
        (("TVA", "20"),), "EUR", _continental(" "), lambda day: f"{day:%d/%m/%Y}", "F2026-",
    ),
    "qc": Country(
        ("FACTURE", "No de facture", "Date de facture", "Date d'échéance", "Facturé à", "Description", "Qté",
         "Prix unitaire", "Montant", "Sous-total", "Total à payer"),
        (("Plomberie Gingras inc.", "450, rue Saint-Joseph", "Québec (Québec) G1K 3B4"), ("Atelier Boréal inc.",
         "77, chemin du Fleuve", "Lévis (Québec) G6V 2K1")),
        (("Clinique du Parc", "19, avenue du Parc", "Montréal (Québec) H2V 4E6"),),
        (("Robinet mitigeur", "129,95"), ("Main-d'oeuvre, à l'heure", "95,00"), ("Déplacement", "45,00"),
         ("Coude de cuivre 1/2 po", "6,35")),
        (("TPS", "5"), ("TVQ", "9,975")), "CAD", _continental(" "), lambda day: f"{day:%Y-%m-%d}", "QC-",
    ),
    "de": Country(
        ("RECHNUNG", "Rechnungsnummer", "Rechnungsdatum", "Fällig am", "Rechnung an", "Bezeichnung", "Menge",
         "Einzelpreis", "Betrag", "Nettobetrag", "Gesamtbetrag"),
        (("Tischlerei Brandt GmbH", "Lindenweg 7", "50667 Köln"), ("Druckhaus Seefeld GmbH", "Am Hafen 21",
         "18055 Rostock"), ("Elektro Weiß GmbH", "Ringstraße 3", "04109 Leipzig")),
        (("Praxis Dr. Hahn", "Marktplatz 2", "53111 Bonn"), ("Gasthof Sonne", "Hauptstraße 40", "79098 Freiburg")),
        (("Regalbrett Eiche", "38,90"), ("Montage je Stunde", "52,00"), ("Briefbogen, 500 Stück", "41,20"),
         ("Leuchte, rund", "64,50"), ("Anfahrt", "25,00")),
        (("USt.", "19"),), "EUR", _continental("."), _dotted, "RE-2026-",
    ),
}  # fmt: skip


def invent(kind: str, chance: random.Random, rows: int | None = None) -> Bill:
    """Return a random bill of this country."""
    country = COUNTRIES[kind]
    issued = FIRST_DAY + timedelta(days=chance.randrange(200))
    wanted = rows or chance.randint(2, 4)
    goods = [country.goods[place % len(country.goods)] for place in chance.sample(range(60), wanted)]
    lines = []
    for what, about in goods:
        price = (Decimal(about.replace(",", ".")) * chance.randint(90, 110) / 100).quantize(CENT)
        lines.append((what, chance.randint(1, 12), price))
    return Bill(
        country, chance.choice(country.vendors), chance.choice(country.customers),
        f"{country.prefix}{chance.randint(1000, 9999)}", issued, issued + timedelta(days=30), tuple(lines),
    )  # fmt: skip


def invoice(bill: Bill, look: int = 0) -> Paper:
    """Draw the bill as a letter, in one of three layouts."""
    paper, country = Paper(), bill.country
    (title, number, day, due, to, what, count, price, amount, subtotal, total), money = country.words, country.money
    left, right = 56, 539
    paper.text(left, 62, bill.vendor[0], 15, bold=True)
    for place, line in enumerate(bill.vendor[1:]):
        paper.text(left, 80 + 13 * place, line, 9)
    paper.text(right if look != 1 else left, 62 if look != 1 else 135, title, 20, bold=True,
               align="right" if look != 1 else "left")  # fmt: skip
    facts = ((number, bill.number), (day, country.day(bill.issued)), (due, country.day(bill.due)))
    for place, (label, value) in enumerate(facts):
        at = 150 + 16 * place
        paper.text(340, at, f"{label}:" if look != 2 else label, 10)
        paper.text(right, at, value, 10, bold=look == 2, align="right")
    for place, line in enumerate((f"{to}:", *bill.customer)):
        paper.text(left, 160 + 13 * place, line, 10, bold=place == 0)
    y = 240.0
    for place, (item, quantity, each) in enumerate(bill.rows):
        if place and place % ROWS_ON_A_PAGE == 0:
            paper.page()
            y = 60.0
        if place % ROWS_ON_A_PAGE == 0:
            y = _headings(paper, y, look, (what, count, price, amount))
        paper.text(left + 4, y, item, 10)
        paper.text(350, y, str(quantity), 10, align="right")
        paper.text(440, y, money(each), 10, align="right")
        paper.text(right - 4, y, money(each * quantity), 10, align="right")
        y += 18
    paper.line(left, y - 8, right, y - 8)
    sign = f" {country.currency}" if look != 1 else ""
    for label, part in ((subtotal, bill.subtotal), *bill.taxes):
        y += 16
        paper.text(350, y, label, 10)
        paper.text(right - 4, y, money(part) + sign, 10, align="right")
    y += 22
    paper.text(350, y, total, 12, bold=True)
    paper.text(right - 4, y, f"{money(bill.total)} {country.currency}", 12, bold=True, align="right")
    return paper


def _headings(paper: Paper, y: float, look: int, words: tuple[str, str, str, str]) -> float:
    if look == 0:
        paper.box(56, y - 12, 483, 18)
    for word, x in zip(words, (60, 350, 440, 535), strict=True):
        paper.text(x, y, word, 10, bold=True, align="left" if x == 60 else "right")
    if look != 0:
        paper.line(56, y + 6, 539, y + 6)
    return y + 22
