"""An uploaded file, checked by its bytes, whatever its sender declares."""

from __future__ import annotations

from tabellion.messages import Message
from tabellion.reading.errors import Unreadable
from tabellion.reading.sniff import ENDINGS, Kind, find_second_format, sniff
from tabellion.storage.blobs import Sink, TooLarge
from tabellion.web.limits import too_large
from tabellion.web.names import escape_name
from tabellion.web.problems import Problem

MEDIA = {
    Kind.PDF: "application/pdf", Kind.PNG: "image/png", Kind.JPEG: "image/jpeg", Kind.WEBP: "image/webp",
    Kind.GIF: "image/gif", Kind.TIFF: "image/tiff", Kind.BMP: "image/bmp",
}  # fmt: skip
ALIASES = {
    "application/x-pdf": "application/pdf", "image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png", "image/tif": "image/tiff", "image/x-tiff": "image/tiff", "image/x-bmp": "image/bmp",
    "image/x-ms-bmp": "image/bmp",
}  # fmt: skip
#: Content types that say nothing about the content.
SILENT = ("", "application/octet-stream", "binary/octet-stream", "application/x-download", "application/force-download")
RAW = (*MEDIA.values(), *ALIASES, "application/octet-stream")
#: Extensions of formats that are not supported; any other extension says nothing.
OTHER_ENDINGS = frozenset(
    f".{ending}"
    for endings in (
        "html htm xhtml svg xml txt csv json md rtf doc docx xls xlsx ppt pptx odt ods eml msg",
        "zip gz 7z rar tar exe dll sh bat cmd js py php jar apk heic heif avif psd ps eps djvu mp3 mp4 mov",
    )
    for ending in endings.split()
)


async def write_chunk(sink: Sink, chunk: bytes, field_: str) -> None:
    """Writes the next bytes; a file over the limit is a Problem at this field."""
    try:
        await sink.write(chunk)
    except TooLarge as error:
        raise too_large(error.limit, None, "file", field_ or None) from None


def judge(sink: Sink, pointer: str, tail: bytes) -> None:
    """Rejects a file that is empty, unsupported, or not what its sender declared; sanitises its name."""
    declared, media = sink.name, ALIASES.get(sink.media, sink.media)
    sink.name = escape_name(declared)
    if not sink.bytes:
        raise Problem(422, "empty_file", field=pointer, fix=Message("upload.fix_bytes"))
    try:
        kind = sniff(sink.head)
    except Unreadable as error:
        raise Problem(415, "type_unsupported", str(error), field=pointer,
                      fix=Message("upload.fix_format")) from None  # fmt: skip
    detected = MEDIA[kind]
    other = _find_mismatch(declared, media, kind)
    if other is not None:
        raise Problem(
            415, "type_mismatch", Message("upload.declared_otherwise", declared=other, found=detected), field=pointer,
            declared=other, detected=detected, fix=Message("upload.fix_name"),
        )  # fmt: skip
    other = find_second_format(kind, sink.head, tail)
    if other is not None:
        # A file with two formats may be read as one here and as the other elsewhere.
        raise Problem(
            415, "type_mismatch", Message("upload.also_other_type", kind=kind.name, detail=other), field=pointer,
            declared=detected, detected=other, fix=Message("upload.fix_own_file"),
        )  # fmt: skip
    sink.media = detected


def _find_mismatch(name: str, media: str, kind: Kind) -> str | None:
    """What the sender declared, if the file is something else."""
    if media not in SILENT and media != MEDIA[kind]:
        return media[:100]
    has_dot, own_extension = name.rpartition(".")[1:]
    own_extension = f".{own_extension.lower()}" if has_dot else ""
    others = {extension for other, endings in ENDINGS.items() if other is not kind for extension in endings}
    return own_extension if own_extension in others or own_extension in OTHER_ENDINGS else None
