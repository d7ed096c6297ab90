"""Character sets: declared, marked, wrong, missing, and ones that must not be used."""

from __future__ import annotations

import codecs

import pytest

from tabellion.pipelines.websites.site.charset import decode_page, find_codec, guess_charset

FRENCH = "Été à Besançon : l’œuvre coûte 5 €. " * 20
RUSSIAN = "Пекарня работает в старом городе с тысяча девятьсот пятидесятого года. " * 20
JAPANESE = "このパン屋は旧市街で一九五〇年からパンを焼いています。" * 20


@pytest.mark.parametrize(
    ("text", "encoded", "content_type", "meta", "charset", "wrong"),
    [
        (FRENCH, "utf-8", "text/html; charset=utf-8", "", "utf-8", ""),
        (FRENCH, "utf-8", "", "", "utf-8", ""),
        (FRENCH, "utf-8", "text/html; charset=iso-8859-1", "", "utf-8", "iso-8859-1"),
        (FRENCH, "utf-8", "", "windows-1251", "utf-8", "windows-1251"),
        (FRENCH, "cp1252", "text/html; charset=ISO-8859-1", "", "cp1252", ""),
        (FRENCH, "cp1252", "", "latin1", "cp1252", ""),
        (FRENCH, "cp1252", "text/html; charset=utf-8", "", "cp1252", "utf-8"),
        (FRENCH, "cp1252", "", "", "cp1252", ""),
        (FRENCH, "utf-16-le", "text/html; charset=utf-16le", "", "utf-16-le", ""),
        (RUSSIAN, "cp1251", "", "windows-1251", "cp1251", ""),
        (RUSSIAN, "koi8-r", 'text/html; charset="koi8-r"', "utf-8", "koi8-r", ""),
        (JAPANESE, "shift_jis", "text/html; charset=x-sjis", "", "cp932", ""),
        (JAPANESE, "iso2022_jp", "", "iso-2022-jp", "iso2022_jp", ""),
        (JAPANESE, "euc_jp", "text/html; charset=nonsense", "euc-jp", "euc_jp", ""),
    ],
)
def test_a_page_is_decoded(text: str, encoded: str, content_type: str, meta: str, charset: str, wrong: str) -> None:
    """The text is right, and a wrong declaration is named."""
    head = f'<meta http-equiv="Content-Type" content="text/html; charset={meta}">' if meta else ""
    found = decode_page(f"{head}{text}".encode(encoded), content_type)
    assert found.text == f"{head}{text}"
    assert (found.charset, found.wrongly_declared) == (charset, wrong)


@pytest.mark.parametrize("mark", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_a_byte_order_mark_decides(mark: bytes) -> None:
    """Before what the server says; it is no part of the text."""
    charset = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}[mark]
    assert decode_page(mark + FRENCH.encode(charset), "text/html; charset=latin1").text == FRENCH


def test_a_page_that_was_cut_within_a_character_is_still_utf_8() -> None:
    """The half of a character at its end is dropped."""
    data = "Café à l’été".encode()
    for length in range(5, len(data)):
        found = decode_page(data[:length], "text/html; charset=latin1", is_cut=True)
        assert "Café à l’été".startswith(found.text)


def test_russian_without_a_declaration_is_guessed() -> None:
    """Other scripts are told apart by their letters; Latin ones are read as browsers do."""
    assert RUSSIAN.encode("cp1251").decode(guess_charset(RUSSIAN.encode("cp1251"))) == RUSSIAN
    assert guess_charset(b"caf\xe9") == "cp1252"


@pytest.mark.parametrize("label", ["utf-7", "rot13", "base64", "idna", "unicode_escape", "no such", "", "zip"])
def test_a_label_that_is_not_a_character_set_is_ignored(label: str) -> None:
    """Some of Python's codecs would run code or hide scripts."""
    assert find_codec(label) == ""
