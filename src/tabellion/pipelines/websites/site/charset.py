"""Finds the character set of a page, also when the one that it declares is wrong.

In this order: a byte order mark; UTF-8, if the bytes are valid in it and not all ASCII, because no other text is that
by chance; what the HTTP header says; what the page says in its first kilobytes; a guess from the bytes.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
DECLARED_WITHIN = 4096  #: bytes in which a page declares its character set
GUESSED_FROM = 100_000  #: bytes
#: Labels that browsers read as another character set than their name says, and labels that Python does not know.
LABELS = {
    "ascii": "cp1252", "us-ascii": "cp1252", "iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252",
    "iso8859-1": "cp1252", "iso_8859-1": "cp1252", "iso-8859-9": "cp1254", "iso-8859-11": "cp874", "gb2312": "gb18030",
    "gbk": "gb18030", "x-gbk": "gb18030", "x-sjis": "cp932", "shift_jis": "cp932", "shift-jis": "cp932",
    "ks_c_5601-1987": "cp949", "euc-kr": "cp949", "x-mac-roman": "mac-roman", "unicode": "utf-16-le",
    "utf-16": "utf-16-le", "utf8mb4": "utf-8", "x-user-defined": "cp1252",
}  # fmt: skip
#: Not text encodings, or attacks: Python would decode them all the same.
REFUSED = frozenset({"utf-7", "utf7", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"})
#: Character sets of pages that do not say theirs.
LIKELY = [
    "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "koi8_r", "koi8_u",
    "iso8859_2", "iso8859_5", "iso8859_7", "gb18030", "big5", "euc_jp", "cp932", "cp949",
]  # fmt: skip
TELLING = 16  #: bytes beyond ASCII that a guess needs
#: Unicode blocks that texts in all scripts use.
SHARED = frozenset(
    {
        "General Punctuation",
        "Currency Symbols",
        "Letterlike Symbols",
        "Box Drawing",
        "Control character",
        "Block Elements",
    }
)

_META = re.compile(rb"""<meta[^>]{0,400}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.+-]{1,40})""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9_:.+-]{1,40})""", re.IGNORECASE)
_HEADER = re.compile(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_:.+-]{1,40})""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DecodedText:
    """The text of a page and its character set; `wrongly_declared` is another one that was declared."""

    text: str
    charset: str
    wrongly_declared: str = ""


def decode_page(data: bytes, content_type: str = "", *, is_cut: bool = False) -> DecodedText:
    """The text of a page. `is_cut`: its end may be in the middle of a character."""
    for mark, charset in MARKS:
        if data.startswith(mark):
            return DecodedText(_decode(data[len(mark) :], charset, is_cut)[0], charset)
    declared = _find_declared(data, content_type)
    codec = find_codec(declared)
    if codec in ("utf-16-le", "utf-16-be") and data[:DECLARED_WITHIN].count(b"\0") < 16:
        codec = ""  # a page that could be read so far is not in UTF-16
    if not codec.startswith(("utf-16", "iso2022")):
        text, errors = _decode(data, "utf-8", is_cut)
        if not errors and codec != "utf-8":
            is_plain = text.isascii()
            return DecodedText(text, codec if is_plain and codec else "utf-8", "" if is_plain else declared)
        if not errors:
            return DecodedText(text, "utf-8")
    if codec:
        text, errors = _decode(data, codec, is_cut)
        if errors <= len(text) // 1000:  # a few damaged characters in a long page
            return DecodedText(text, codec)
    guessed = guess_charset(data)
    return DecodedText(_decode(data, guessed, is_cut)[0], guessed, declared if guessed != codec else "")


def _find_declared(data: bytes, content_type: str) -> str:
    header = _HEADER.search(content_type)
    if header and find_codec(header[1]):
        return header[1]
    start = data[:DECLARED_WITHIN]
    match = _META.search(start) or _XML.search(start)
    return match[1].decode() if match else ""


def find_codec(label: str) -> str:
    """The name of Python's codec for a label; empty if there is none."""
    lowered = label.strip().lower()
    name = LABELS.get(lowered, lowered)
    if not name or name in REFUSED:
        return ""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return ""
    return codec.name if codec._is_text_encoding and codec.name not in REFUSED else ""


def _decode(data: bytes, charset: str, is_cut: bool) -> tuple[str, int]:
    """The text, and how many characters had to be replaced."""
    decoder = codecs.getincrementaldecoder(charset)("replace")
    text = decoder.decode(data, not is_cut)
    # The page itself may contain the replacement character, in UTF-8 only.
    own = data.count("\N{REPLACEMENT CHARACTER}".encode()) if charset == "utf-8" else 0
    return text, max(0, text.count("\N{REPLACEMENT CHARACTER}") - own)


def guess_charset(data: bytes) -> str:
    """The most likely character set of a text that does not say it."""
    from charset_normalizer import from_bytes

    start = data[:GUESSED_FROM]
    is_telling = sum(byte > 127 for byte in start) >= TELLING
    best = from_bytes(start, cp_isolation=LIKELY).best() if is_telling else None
    # Latin sets differ in a few letters only, which short texts do not tell apart: browsers assume Windows-1252.
    if best is None or all("Latin" in name or name in SHARED for name in best.alphabets):
        return "cp1252"
    return find_codec(best.encoding) or "cp1252"
