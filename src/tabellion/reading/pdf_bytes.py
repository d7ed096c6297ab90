"""Inspects the bytes of a PDF without opening it."""

from __future__ import annotations

import re

#: Bytes by which the offsets of a table may be wrong: programs miscount line ends.
SLIP = 64
TABLE = re.compile(rb"startxref\s+(\d{1,12})\s+%%EOF\s*\Z")
SECTION = re.compile(rb"\s*(\d{1,7}) (\d{1,7})\s+")
ENTRY = re.compile(rb"(\d{10}) (\d{5}) ([nf])[\s]{1,2}")
OBJECT = re.compile(rb"(?<!\d)(\d{1,7}) (\d{1,5}) obj\b")
#: Actions of a file in a viewer beyond turning pages.
ACTION = re.compile(rb"/S\s*/(JavaScript|Launch|SubmitForm|ImportData|GoToE|RichMediaExecute)\b")
OPENING = re.compile(rb"/OpenAction\s*<<[^<>]{0,500}?/S\s*/(?!GoTo\b)([A-Z]\w{0,30})")


def actions(content: bytes) -> set[str]:
    """The names of the actions in a PDF's objects. None of them is ever performed here."""
    return {name.decode() for pattern in (ACTION, OPENING) for name in pattern.findall(content)}


def has_slipped_xref(content: bytes) -> bool:
    """Whether the table at the end lists every object with only slightly wrong offsets: then nothing is missing."""
    pointer = TABLE.search(content, max(0, len(content) - 1024))
    start = content.find(b"xref", max(0, int(pointer[1]) - SLIP), int(pointer[1]) + SLIP) if pointer else -1
    if start < 0 or b"/Prev" in content[start:]:
        return False
    offsets: dict[bytes, list[int]] = {}
    for match in OBJECT.finditer(content, 0, start):
        offsets.setdefault(match[0], []).append(match.start())
    position = start + len(b"xref")
    while section := SECTION.match(content, position):
        position = section.end()
        for number in range(int(section[1]), int(section[1]) + int(section[2])):
            entry = ENTRY.match(content, position)
            if entry is None:
                return False
            position = entry.end()
            name = b"%d %d obj" % (number, int(entry[2]))
            if entry[3] == b"n" and not any(abs(offset - int(entry[1])) <= SLIP for offset in offsets.get(name, ())):
                return False
    return bool(re.match(rb"\s*trailer\b", content[position : position + 20]))
