"""The second pass: each kind of correction in French, English and German, and the guard before a model's text."""

from __future__ import annotations

import pytest

from tabellion.reading.boosting.boost import TextChange, accept_boost, boost, boost_prompt
from tabellion.reading.page import Page, Word
from tests.reading.paper import page


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("une instal-\nlation", "une installation"),
        ("the instal-\nlation", "the installation"),
        ("die Rech-\nnung", "die Rechnung"),
        ("le sous-\ntotal", "le sous-total"),
        ("la sous-\ncription", "la souscription"),
        ("avez-\nvous", "avez-vous"),
        ("a well-\nknown firm", "a well-known firm"),
        ("the co-\noperation and co-operation", "the co-operation and co-operation"),
        ("the re-\nsign, resign", "the resign, resign"),
        ("Vor-\nund Nachname", "Vor- und Nachname"),
        ("short-\nand long-term", "short- and long-term"),
        ("Frau Müller-\nMeier", "Frau Müller-Meier"),
        ("Donau\u00ad\ndampf", "Donaudampf"),
        ("12 -\n13", "12 -\n13"),
        ("2026-\n03", "2026-\n03"),
    ],
)
def test_hyphenated_words_are_joined(text: str, mended: str) -> None:
    """At line ends, unless the hyphen belongs to the word or is shared."""
    assert boost(text).text == mended


@pytest.mark.parametrize(
    ("text", "mended", "kind"),
    [
        ("la ﬁn de l'aﬀaire", "la fin de l'affaire", "ligature"),
        ("Auﬂage der Oﬃziere", "Auflage der Offiziere", "ligature"),
        ("total | due ~ now", "total due now", "stray"),
        ("to\u200btal\x07 due", "total due", "stray"),
        ("total   due", "total due", "space"),
        ("Тotal", "Total", "homoglyph"),
        ("Αmount", "Amount", "homoglyph"),
        ("Rechnυng Νummer", "Rechnυng Nummer", "homoglyph"),
        ("Total 1O0,5O EUR", "Total 100,50 EUR", "digit"),
        ("Summe l.234,5O", "Summe 1.234,50", "digit"),
    ],
)
def test_misread_characters_are_corrected(text: str, mended: str, kind: str) -> None:
    """Ligatures, stray and invisible characters, spaces, other scripts, letters in amounts; each change is reported."""
    boosted = boost(text)
    assert boosted.text == mended
    assert kind in {change.kind for change in boosted.changes}
    assert boosted.original == text


@pytest.mark.parametrize(
    "text",
    [
        "œuvre, sœur, Æsir",
        "Всего к оплате",
        "Σύνολο ορ",
        "| a | b |",
        "SO.IS",
        "ISO 9001 l'OS",
        "A. B. Ol",
        "1ε4,50",
        "Größe: 5 m",
    ],
)
def test_correct_text_is_unchanged(text: str) -> None:
    """Letters of a language, other scripts, tables drawn with bars, codes; and a doubtful digit is not guessed."""
    assert boost(text).text == text
    assert boost(text).changes == ()


def test_lines_of_a_paragraph_are_joined_and_short_lines_are_not() -> None:
    """Plain text: full lines are joined, headings and sums are not, an empty line separates."""
    text = (
        "Conditions\n"
        "Le paiement est dû dans les trente jours après la date de\n"
        "la facture et sans escompte pour paiement anticipé du prix\n"
        "convenu.\n\n"
        "Total : 12,00\n"
        "TVA : 2,00"
    )
    joined = (
        "Conditions\n"
        "Le paiement est dû dans les trente jours après la date de "
        "la facture et sans escompte pour paiement anticipé du prix "
        "convenu.\n\n"
        "Total : 12,00\n"
        "TVA : 2,00"
    )
    assert boost(text).text == joined


INDEX = [
    "2009-06-12 16 254 118 Hypothèque légale de la construction",
    "2011-02-28 18 001 954 Déclaration de copropriété divise",
    "2013-10-08 20 133 221 Servitude de passage et de vue",
    "2019-01-15 24 410 007 Radiation de l'hypothèque légale",
]


@pytest.mark.parametrize(
    "lines",
    [
        INDEX,
        [line[11:] for line in INDEX],
        [f"Lot {line[11:]}" for line in INDEX],
    ],
)
def test_entries_of_an_index_stay_on_their_lines(lines: list[str]) -> None:
    """Lines that begin with a date, or all with a number or the same word and a number, are not one sentence."""
    assert boost("\n".join(lines)).text.splitlines() == lines
    assert boost(page(*lines)).text.splitlines() == lines


def test_a_sentence_that_goes_on_with_a_number_is_joined() -> None:
    """One line that begins with a number is not a list."""
    lines = [
        "The price is due in full and without any deduction within",
        "30 days of the date of this invoice, and interest of 5 per",
        "cent a year is due after that date.",
    ]
    assert boost("\n".join(lines)).text == " ".join(lines)
    assert boost(page(*lines)).text == " ".join(lines)


def test_an_entry_that_goes_on_in_the_next_line_is_joined() -> None:
    """Only its beginning starts a new line."""
    lines = [
        "2011-02-28 Déclaration de copropriété divise, inscrite avec",
        "servitudes réciproques de vue",
        "2013-10-08 Servitude de passage à pied et en véhicule, avec",
        "droit d'entretien",
    ]
    assert boost("\n".join(lines)).text.splitlines() == [" ".join(lines[:2]), " ".join(lines[2:])]


def test_a_page_is_read_in_columns_and_joined() -> None:
    """With boxes: columns one after the other, hyphenated words over lines, rows of tables left alone."""
    sheet = page(
        "Die Zahlung ist ohne Ab-     Der Versand geschieht in",
        "zug innerhalb von drei-      jedem Fall auf Rechnung",
        "ßig Tagen nach dem Datum     und Gefahr des Kunden und",
        "der Rechnung zu leisten.     nicht vor der Bezahlung.",
        "",
        "Schrauben        2        5,00        10,00",
        "Nägel        1        3,00        3,00",
    )
    boosted = boost(sheet)
    assert boosted.text.splitlines() == [
        "Die Zahlung ist ohne Abzug innerhalb von dreißig Tagen nach dem Datum der Rechnung zu leisten.",
        "Der Versand geschieht in jedem Fall auf Rechnung und Gefahr des Kunden und nicht vor der Bezahlung.",
        "Schrauben 2 5,00 10,00",
        "Nägel 1 3,00 3,00",
    ]
    assert boosted.original == sheet.text
    assert {"order", "hyphen"} <= {change.kind for change in boosted.changes}


def test_specks_are_removed() -> None:
    """A lone character with a low OCR score is dirt; with a high score it is not."""
    words = (
        Word("-", (0.1, 0.1, 0.11, 0.11), 0.2),
        Word("Total", (0.2, 0.1, 0.3, 0.11)),
        Word(":", (0.31, 0.1, 0.32, 0.11), 0.9),
    )
    boosted = boost([Page(1, 1, 1, "ocr", words=words)])
    assert boosted.text == "Total :"
    assert boosted.changes == (TextChange("stray", "-", ""),)


def test_empty_text_stays_empty() -> None:
    """Empty text and pages without words."""
    assert boost("").text == ""
    assert boost([Page(1, 1, 1, "ocr")]).text == ""


def test_the_prompt_has_the_text_and_the_rules() -> None:
    """Numbers are to be kept, and the text is data, not instructions."""
    rules, material = boost_prompt("Total 12,00", 3)
    assert "page 3" in rules
    assert "Keep every number" in rules
    assert "Total 12,00" in material


OCR = (
    "La facture n° 2026-017 d'un rnontant de 1 234,5O € est pay-\n"
    "able dans les trente jours à compter de sa récep-\ntion."
)
MENDED = (
    "La facture n° 2026-017 d'un montant de 1 234,50 € est payable dans les trente jours à compter de sa réception."
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(MENDED, MENDED), (f"```\n{MENDED}\n```", MENDED), (f"```text\n{MENDED}\n```", MENDED), (OCR, OCR)],
)
def test_a_corrected_text_is_accepted(text: str, expected: str) -> None:
    """Words joined, letters corrected, with a code fence around it."""
    boosted = accept_boost(OCR, text)
    assert boosted.accepted
    assert boosted.text == expected
    assert boosted.original == OCR


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (MENDED.replace("1 234,50", "1 243,50"), "boost.number_new"),
        (MENDED.replace("1 234,50", "1 234,00"), "boost.other_digits"),
        (MENDED.replace("2026-017", ""), "boost.other_digits"),
        (MENDED[:60], "boost.other_length"),
        (
            MENDED + " Merci de régler cette facture rapidement, nous vous en remercions par avance.",
            "boost.other_length",
        ),
        (
            "The invoice no. 2026-017 over 1 234,50 € is to be paid within thirty days after you received it here.",
            "boost.words_new",
        ),
        ("", "boost.other_length"),
    ],
)
def test_a_different_text_is_rejected_and_the_original_kept(text: str, code: str) -> None:
    """Changed digits, lost parts, additions, a translation: each with its reason."""
    boosted = accept_boost(OCR, text)
    assert not boosted.accepted
    assert boosted.text == OCR
    assert code in {reason.code for reason in boosted.reasons}


def test_changes_quote_the_page() -> None:
    """A change holds the old and the new text, without words of ours."""
    changes = {change.kind: (change.before, change.after) for change in boost("to\u200btal\x07   due").changes}
    assert changes == {"stray": ("U+200B U+0007", ""), "space": ("   ", " ")}
