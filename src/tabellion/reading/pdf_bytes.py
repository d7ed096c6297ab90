"""What the bytes of a PDF tell without its being opened."""

from __future__ import annotations

import re

#: So many bytes too early or too late a table may point and still be the file's own: programs miscount line ends.
SLIP = 64
TABLE = re.compile(rb"startxref\s+(\d{1,12})\s+%%EOF\s*\Z")
SECTION = re.compile(rb"\s*(\d{1,7}) (\d{1,7})\s+")
ENTRY = re.compile(rb"(\d{10}) (\d{5}) ([nf])[\s]{1,2}")
OBJECT = re.compile(rb"(?<!\d)(\d{1,7}) (\d{1,5}) obj\b")
#: What a file may ask a viewer to do that is more than turning its pages.
ACTION = re.compile(rb"/S\s*/(JavaScript|Launch|SubmitForm|ImportData|GoToE|RichMediaExecute)\b")
OPENING = re.compile(rb"/OpenAction\s*<<[^<>]{0,500}?/S\s*/(?!GoTo\b)([A-Z]\w{0,30})")


def actions(content: bytes) -> set[str]:
    """The actions in a PDF's objects, by their names. None of them is ever carried out here."""
    return {found.decode() for pattern in (ACTION, OPENING) for found in pattern.findall(content)}


def has_slipped_xref(content: bytes) -> bool:
    """Whether the table at the end names every object and only counts a few bytes wrong: nothing is missing then."""
    told = TABLE.search(content, max(0, len(content) - 1024))
    start = content.find(b"xref", max(0, int(told[1]) - SLIP), int(told[1]) + SLIP) if told else -1
    if start < 0 or b"/Prev" in content[start:]:
        return False
    places: dict[bytes, list[int]] = {}
    for match in OBJECT.finditer(content, 0, start):
        places.setdefault(match[0], []).append(match.start())
    at = start + len(b"xref")
    while section := SECTION.match(content, at):
        at = section.end()
        for number in range(int(section[1]), int(section[1]) + int(section[2])):
            entry = ENTRY.match(content, at)
            if entry is None:
                return False
            at = entry.end()
            name = b"%d %d obj" % (number, int(entry[2]))
            if entry[3] == b"n" and not any(abs(place - int(entry[1])) <= SLIP for place in places.get(name, ())):
                return False
    return bool(re.match(rb"\s*trailer\b", content[at : at + 20]))
