"""The staging store: the JSON file of each ref, read before OCR and written with its text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tabellion.errors import Permanent
from tabellion.messages import Message
from tabellion.storage.lake import Lake, LakeFileTooLarge, NoSuchLakeFile

LARGEST = 64_000_000  #: bytes of a ref's file
TEXT = "ocr"  #: the key of a ref's file that has the text of its image


@dataclass(frozen=True, slots=True)
class RefFile:
    """The content of a ref's file; keys that we do not know are kept."""

    content: dict[str, Any]

    @property
    def text(self) -> str | None:
        """The text of the image, empty for a blank page; None if it was not read yet."""
        text = self.content.get(TEXT)
        return text if isinstance(text, str) else None

    def with_text(self, text: str) -> RefFile:
        """The same with this text."""
        return RefFile({**self.content, TEXT: text})

    def dump(self) -> bytes:
        """The file's bytes; equal content gives equal bytes, whoever wrote it. Raises ValueError for what is not JSON.

        That is NaN, a number too large for a float, and half of a surrogate pair: readers of the published file would
        fail.
        """
        return json.dumps(
            self.content, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
        ).encode()


@dataclass(frozen=True, slots=True)
class Staging:
    """The ref files of one environment, in a folder or a bucket."""

    lake: Lake

    async def read(self, key: str) -> RefFile:
        """A ref's file; raises Permanent if there is none, if it is not a JSON object, or if its text is not a text."""
        try:
            data = await self.lake.get(key, limit=LARGEST)
        except NoSuchLakeFile:
            raise Permanent(Message("batch.staging_missing", key=key)) from None
        except LakeFileTooLarge:
            raise Permanent(Message("batch.staging_too_large", key=key, n=LARGEST)) from None
        try:
            content = json.loads(data)
            if not isinstance(content, dict):
                raise ValueError
            file = RefFile(content)
            file.dump()  # what cannot be published is refused before it is paid for
        except (ValueError, RecursionError):
            raise Permanent(Message("batch.staging_invalid", key=key)) from None
        if not isinstance(content.get(TEXT), str | None):
            raise Permanent(Message("batch.staging_text_invalid", key=key, name=TEXT))  # not ours to overwrite
        return file

    async def write(self, key: str, file: RefFile) -> None:
        """Replaces a ref's file, whole or not at all."""
        await self.lake.put(key, file.dump())
