"""Content-addressed storage: bytes under their CID, in a folder, a bucket, or an IPFS node."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from tabellion.errors import ConfigurationError, TabellionError
from tabellion.messages import Message
from tabellion.net.guard import Blocked, HostUnreachable, Rules
from tabellion.storage.cid import cid_of, is_cid_of
from tabellion.storage.lake import Lake, LakeFileExists, LakeFileTooLarge, NoSuchLakeFile

if TYPE_CHECKING:
    import httpx2

IPFS = ("ipfs+http://", "ipfs+https://")
SECONDS = 60.0  #: for one request to a node
SHOWN = 200  #: characters of a node's error
LARGEST = 64_000_000  #: bytes of a file that is read
#: What a node says when there is no such block, or the text is not a CID. A timeout says nothing about the block.
NOT_FOUND = re.compile(r"not found|could not find|invalid (path|cid)|selected encoding", re.IGNORECASE)


class ContentError(TabellionError):
    """The content could not be stored or read now."""


class ContentMissing(ContentError):  # noqa: N818 - what happened
    """There is no such content: the store answered, and asking again would not help."""


class ContentDamaged(ContentError):  # noqa: N818 - what happened
    """There is content, but it cannot be used: other bytes than those of its CID, or too many."""


class NodeError(ContentError):
    """The IPFS node answered with an error."""


class ContentStore(Protocol):
    """Where content is published. Equal bytes have the same CID everywhere, so storing them twice changes nothing."""

    async def put(self, data: bytes) -> str:
        """Stores bytes and returns their CID."""

    async def get(self, cid: str) -> bytes:
        """The bytes of a CID; raises ContentMissing or ContentDamaged, and another ContentError if nothing answers."""

    async def close(self) -> None:
        """Closes connections."""


class LakeContent:
    """Content in a local folder or a bucket."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    async def put(self, data: bytes) -> str:
        """Stores bytes and returns their CID."""
        cid = cid_of(data)
        try:
            await self._lake.put(_path(cid), data, create=True)
        except LakeFileExists:
            # What a crash or a disk left behind must not be what others read.
            if await self._lake.get(_path(cid)) != data:
                await self._lake.put(_path(cid), data)
        return cid

    async def get(self, cid: str) -> bytes:
        """The bytes of a CID; raises ContentMissing or ContentDamaged."""
        try:
            data = await self._lake.get(_path(cid), limit=LARGEST)
        except (NoSuchLakeFile, ValueError):
            raise ContentMissing(Message("batch.content_missing", cid=cid[:100])) from None
        except LakeFileTooLarge:
            raise ContentDamaged(Message("batch.content_too_large", n=LARGEST)) from None
        if not is_cid_of(cid, data):
            raise ContentDamaged(Message("batch.content_damaged", cid=cid))
        return data

    async def close(self) -> None:
        """Nothing is open."""


class IpfsContent:
    """Content in an IPFS node, by the HTTP API of Kubo: raw blocks, pinned."""

    def __init__(self, url: str, rules: Rules | None = None) -> None:
        self._url, self._rules = url.rstrip("/"), rules
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()

    async def put(self, data: bytes) -> str:
        """Stores a block and returns its CID; raises ContentError if the node computes another one."""
        boundary = secrets.token_hex(16)
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="data"; filename="data"\r\n\r\n'.encode()
        body = head + data + f"\r\n--{boundary}--\r\n".encode()
        answer = await self._ask(
            "block/put?cid-codec=raw&mhtype=sha2-256&pin=true&allow-big-block=true", body,
            f"multipart/form-data; boundary={boundary}",
        )  # fmt: skip
        cid = cid_of(data)
        try:
            stored = json.loads(answer)["Key"]
        except (ValueError, KeyError, TypeError):
            raise ContentError(Message("batch.ipfs_no_cid")) from None
        if stored != cid:
            raise ContentError(Message("batch.ipfs_other_cid", text=str(stored)[:100], cid=cid))
        return cid

    async def get(self, cid: str) -> bytes:
        """The bytes of a block; raises ContentMissing if the node says that there is none, or ContentDamaged."""
        if not cid.isalnum():
            raise ContentMissing(Message("batch.content_not_cid", cid=cid[:100]))
        try:
            data = await self._ask(f"block/get?arg={cid}&timeout={SECONDS / 2:g}s", b"", "application/octet-stream")
        except NodeError as error:
            kind = ContentMissing if NOT_FOUND.search(str(error)) else ContentError
            raise kind(Message("batch.ipfs_not_returned", cid=cid[:100], detail=str(error))) from None
        if not is_cid_of(cid, data):
            raise ContentDamaged(Message("batch.ipfs_other_bytes", cid=cid))
        return data

    async def close(self) -> None:
        """Closes this loop's connections."""
        http = self._clients.pop(asyncio.get_running_loop(), None)
        if http is not None:
            await http.aclose()

    async def _ask(self, call: str, body: bytes, media: str) -> bytes:
        import httpx2

        from tabellion.net import fetching

        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = fetching.client(self._rules, timeout=SECONDS)
        pieces, size = [], 0
        try:
            async with self._clients[loop].stream(
                "POST", f"{self._url}/api/v0/{call}", content=body, headers={"content-type": media}
            ) as response:
                async for piece in response.aiter_bytes():
                    pieces.append(piece)
                    size += len(piece)
                    if size > LARGEST:
                        raise ContentDamaged(Message("batch.content_too_large", n=LARGEST))
        except (Blocked, HostUnreachable) as error:
            raise ContentError(Message("batch.ipfs_unreachable", detail=error.reason)) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise ContentError(Message("batch.ipfs_no_answer", error=type(error).__name__)) from None
        answer = b"".join(pieces)
        if response.status_code != 200:
            text = answer[:SHOWN].decode("utf-8", "replace")
            raise NodeError(Message("batch.ipfs_status", status=response.status_code, text=text))
        return answer


def open_content(url: str, rules: Rules | None = None) -> ContentStore:
    """The store at an address: a folder, `s3://bucket/prefix`, or `ipfs+http://127.0.0.1:5001`."""
    if url.startswith(IPFS):
        return IpfsContent(url.removeprefix("ipfs+"), rules)
    try:
        return LakeContent(Lake(url))
    except ConfigurationError:
        raise ConfigurationError(
            f"batches.content: {url} is not a folder, s3://bucket/prefix or ipfs+http://host:port"
        ) from None


def _path(cid: str) -> str:
    return f"{cid[-3:-1]}/{cid}"
