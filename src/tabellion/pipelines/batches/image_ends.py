"""Whether an image has its end: a model would read a part of one that was cut off, and call it the whole."""

from __future__ import annotations

from tabellion.models.base import Blob
from tabellion.models.media import TYPES
from tabellion.reading.sniff import Kind

START_OF_SCAN, END_OF_IMAGE = 0xDA, b"\xff\xd9"
ALONE = (0x01, *range(0xD0, 0xD9))  #: markers of a JPEG without a length


def has_end(image: Blob) -> bool:
    """Whether the last byte of an image is there, by its structure and without decoding; True where that is unknown."""
    data = image.data
    if image.type == TYPES[Kind.PNG]:
        return _png_has_end(data)
    if image.type == TYPES[Kind.JPEG]:
        return _jpeg_has_end(data)
    if image.type == TYPES[Kind.WEBP]:
        return len(data) >= int.from_bytes(data[4:8], "little") + 8
    return True


def _png_has_end(data: bytes) -> bool:
    """Chunk after chunk up to IEND; others may append to the file what they like."""
    place = 8
    while place + 12 <= len(data):
        after = place + 12 + int.from_bytes(data[place : place + 4], "big")
        if data[place + 4 : place + 8] == b"IEND":
            return after <= len(data)
        place = after
    return False


def _jpeg_has_end(data: bytes) -> bool:
    """Segment after segment up to the image itself: the end of a thumbnail within one of them does not count."""
    place = 2
    while place + 4 <= len(data):
        if data[place] != 0xFF:
            return True  # not as it should be: the model decides
        marker = data[place + 1]
        if marker == START_OF_SCAN:
            return data.find(END_OF_IMAGE, place) >= 0
        if marker == 0xFF:
            place += 1
        else:
            place += 2 if marker in ALONE else 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return False
