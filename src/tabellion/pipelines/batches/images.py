"""Which refs are images that can be read, the variant of an image that a CDN is asked for, and its download."""

from __future__ import annotations

import re
import time
from collections.abc import Container
from pathlib import PurePosixPath

from tabellion.errors import Permanent, TabellionError
from tabellion.messages import Message
from tabellion.models.base import Blob
from tabellion.models.media import TYPES
from tabellion.net.fetching import FetchFailed, Pinned, fetch
from tabellion.net.guard import Blocked, Rules, parse
from tabellion.net.retry_after import parse_retry_after
from tabellion.reading.errors import Unreadable
from tabellion.reading.sniff import ENDINGS, HEAD, Kind, describe_kind, sniff

REF_FILE = ".ref.json"  #: the ending that a ref's file adds to the name of its image
ENDINGS_OF_IMAGES = frozenset(ending for kind, endings in ENDINGS.items() if kind is not Kind.PDF for ending in endings)
ASSET = re.compile(r"/asset/[^/.?#]+")  #: the path of an image without a variant
GONE = (404, 410)
LATER = (408, 429)  #: answers of the class 4xx that say nothing about the image
FINAL = ("too_many_redirects", "compressed")  #: codes of failures that the next request would have, too
SECONDS = 60.0  #: for one download


class HostLimited(TabellionError):  # noqa: N818 - what happened
    """The host of the image limits requests, and has refused this one."""

    def __init__(self, asked: float | None, message: Message) -> None:
        self.asked = asked  #: seconds to wait, if the host says how many
        super().__init__(message)


class ImageUnavailable(TabellionError):  # noqa: N818 - what happened
    """The image could not be downloaded now; a later try may succeed."""


def is_image(filename: str) -> bool:
    """Whether a ref is of an image that can be read, by the name of its file: `photo.jpg.ref.json` is."""
    name = filename.lower().removesuffix(REF_FILE)
    return PurePosixPath(name).suffix in ENDINGS_OF_IMAGES


def variant_url(cdn_url: str, variant: str) -> str | None:
    """The URL of a smaller variant of an image: `…/asset/ID/medium`. None where the URL names a variant or a file."""
    if not variant or not ASSET.fullmatch(parse(cdn_url).rest):
        return None
    return f"{cdn_url.partition('#')[0].rstrip('/')}/{variant}"


async def download_image(
    cdn_url: str, rules: Rules, *, variant: str, limit: int, transport: Pinned | None = None
) -> Blob:
    """The bytes of an image and their type, by their content; its variant if the CDN gives it.

    A `transport` keeps connections for further images.

    Raises Permanent for what a retry cannot change (an invalid URL, no such image, another format, too large),
    ImageUnavailable for what it may, and HostLimited for a 429.
    """
    try:
        smaller = variant_url(cdn_url, variant)
        data = None
        if smaller is not None:
            data = await _download(smaller, rules, limit, transport, refused=range(400, 500))
        if data is None:
            data = await _download(cdn_url, rules, limit, transport)
    except Blocked as error:
        raise Permanent(Message("batch.image_blocked", detail=error.reason)) from None
    if data is None:
        raise Permanent(Message("batch.image_gone"))
    try:
        kind = sniff(data)
    except Unreadable:
        if not data:
            raise Permanent(Message("batch.image_empty")) from None
        raise Permanent(Message("batch.image_is_other", detail=describe_kind(data[:HEAD]))) from None
    if kind is Kind.PDF:
        raise Permanent(Message("batch.image_is_pdf"))
    return Blob(data, TYPES[kind], PurePosixPath(parse(cdn_url).rest.partition("?")[0]).name)


async def _download(
    url: str, rules: Rules, limit: int, transport: Pinned | None, *, refused: Container[int] = GONE
) -> bytes | None:
    """The bytes at a URL; None if the server refuses it with one of these statuses."""
    try:
        async with fetch(url, rules, limit=limit, deadline=SECONDS, transport=transport) as found:
            return b"".join([chunk async for chunk in found.chunks])
    except FetchFailed as error:
        if error.status in refused and error.status not in LATER:
            return None
        if error.code == "too_large":
            raise Permanent(Message("batch.image_too_large", n=limit)) from None
        message = Message("batch.image_unavailable", detail=str(error))
        if error.status == 429:
            raise HostLimited(parse_retry_after(error.retry_after, time.time()), message) from None
        is_refused = error.status is not None and 400 <= error.status < 500 and error.status not in LATER
        if is_refused or error.code in FINAL:
            raise Permanent(message) from None
        raise ImageUnavailable(message) from None
