"""Accepts files of this machine: checks them, copies and hashes them, then submits them."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from tabellion.engine.store import Store
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.pipelines.documents.settings import Settings, Unknown
from tabellion.pipelines.documents.submit import AlreadyThere, FileGone, SubmittedDocument, submit
from tabellion.reading.errors import Unreadable
from tabellion.reading.sniff import ENDINGS, TAIL, Kind, find_second_format, sniff
from tabellion.storage import files
from tabellion.storage.blobs import BATCH, Blobs, Sink, StoredBlob, TooLarge

MEDIA = {kind: "application/pdf" if kind is Kind.PDF else f"image/{kind}" for kind in Kind}
TRIES = 3  #: of a file whose content is deleted while it is submitted
SUFFIXES = frozenset(suffix for suffixes in ENDINGS.values() for suffix in suffixes)  #: of files that are documents


class FileRejected(TabellionError):  # noqa: N818 - what happened
    """A file was rejected, and will be rejected again; `code` says why."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


async def submit_local(
    store: Store,
    settings: Settings,
    source: Path | bytes,
    *,
    name: str | None = None,
    type: str | None = None,  # noqa: A002 - the word for it everywhere
    model: str | None = None,
    limit: int | None = None,
) -> SubmittedDocument:
    """Submits a file or bytes; raises FileRejected if they are at fault, any other error if something else is."""
    try:
        for left in range(TRIES - 1, -1, -1):
            blob = await _copy_file(settings.blobs, source, name, limit)
            try:
                return await submit(store, settings, blob, type=type, model=model)
            except FileGone:  # deleted just now with the last document that had it: copy it again
                if not left:
                    raise
        raise AssertionError
    except TooLarge as error:
        raise FileRejected("too_large", str(error)) from None
    except Unreadable as error:
        raise FileRejected(error.code, str(error)) from None
    except AlreadyThere as error:
        raise FileRejected("already_there", str(error)) from None
    except Unknown as error:
        raise FileRejected(f"{error.field}_unknown", str(error)) from None


async def _copy_file(blobs: Blobs, source: Path | bytes, name: str | None, limit: int | None) -> StoredBlob:
    if isinstance(source, bytes):
        async with blobs.receive(limit, name=name or "") as sink:
            await sink.write(source)
            sink.media = await _media(sink)
        return sink.blob
    handle = await files.in_thread.acquire(os.close, _open_file, source)  # a cancelled reader leaves no descriptor
    try:
        async with blobs.receive(limit, name=name or source.name) as sink:
            while chunk := await files.in_thread(os.read, handle, BATCH):
                await sink.write(chunk)
            sink.media = await _media(sink)
        return sink.blob
    finally:
        os.close(handle)


async def _media(sink: Sink) -> str:
    if not sink.head:
        raise Unreadable("empty_file")
    kind = sniff(sink.head)
    if (other := find_second_format(kind, sink.head, await sink.tail(TAIL))) is not None:
        raise FileRejected("type_mismatch", Message("upload.also_other_type", kind=kind.name, detail=other))
    return MEDIA[kind]


def _open_file(path: Path) -> int:
    """Opens the file if it is a regular one: a link may lead anywhere, and opening a pipe may block."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileRejected("not_a_file", Message("local_file.is_link", name=path.name)) from None
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENXIO):
            raise FileRejected(
                "file_missing", Message("local_file.cannot_open", name=path.name, text=error.strerror)
            ) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileRejected("not_a_file", Message("local_file.not_a_file", name=path.name))
    return handle
