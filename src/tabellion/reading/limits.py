"""The limits for one document: bytes, pages, pixels, seconds, memory; and the errors when one is exceeded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tabellion.messages import Message
from tabellion.reading.errors import Unreadable

MEGA = 1_000_000
MEBI = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that a document may use. Each exceeded limit has its own error code."""

    bytes: int = 100 * MEGA  #: of the file: a scan of a few hundred pages is 50 MB. `too_large`
    pages: int = 2000  #: per document. `too_many_pages`
    pixels: int = 64 * MEGA  #: of one image: A4 at 600 dpi has 35 M. A page of a PDF is drawn to fit. `image_too_large`
    ratio: int = 50_000  #: pixels per stored byte of a large image; a blank fax at 600 dpi has 40,000. `ratio_exceeded`
    seconds: float = 1800.0  #: for the document, without the time that the child waits for the parent. `timed_out`
    page_seconds: float = 45.0  #: without a message: opening, or one page; OCR of a page takes 2 to 10. `timed_out`
    cpu_seconds: float = 3600.0  #: of processor time for the document, enforced by the kernel. `resource_limit`
    memory: int = 1400 * MEBI  #: resident in the child; OCR of a dense page takes up to 0.9 GB. `resource_limit`
    address_space: int = 3072 * MEBI  #: mapped in the child, which is more: 1.2 GB with OCR. `resource_limit`
    attachment_bytes: int = 10 * MEGA  #: of all embedded files together; the rest is omitted with a note

    def __post_init__(self) -> None:
        for limit in fields(self):
            if not getattr(self, limit.name) > 0:
                raise ValueError(f"the limit {limit.name} must be more than 0, not {getattr(self, limit.name)!r}")

    def as_dict(self) -> dict[str, Any]:
        """The limits as JSON for a child."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Limits:
        """Restores the result of `as_dict`."""
        return cls(**data)

    def check_bytes(self, count: int) -> None:
        """Rejects a file that is too large."""
        if count > self.bytes:
            raise Unreadable("too_large", Message("unreadable.bytes_over_limit", n=count, limit=self.bytes))

    def check_pages(self, count: int) -> None:
        """Rejects a document with too many pages."""
        if count > self.pages:
            raise Unreadable("too_many_pages", Message("unreadable.pages_over_limit", n=count, limit=self.pages))

    def check_image(self, width: int, height: int, stored: int | None = None) -> None:
        """Rejects an image by the size in its header, and by its pixels per stored byte."""
        pixels = width * height
        if pixels > self.pixels:
            message = Message("unreadable.size_over_limit", n=width, height=height, pixels=pixels, limit=self.pixels)
            raise Unreadable("image_too_large", message)
        # A small image needs little memory at any ratio.
        if stored is not None and pixels > self.pixels // 4 and pixels > self.ratio * max(stored, 1):
            message = Message("unreadable.ratio_over_limit", n=stored, pixels=pixels, limit=self.ratio)
            raise Unreadable("ratio_exceeded", message)
