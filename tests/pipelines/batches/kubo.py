"""An IPFS node for tests: the two calls of Kubo's HTTP API that are used, as its documentation describes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from email.parser import BytesParser
from email.policy import HTTP
from urllib.parse import parse_qs, urlsplit

from tabellion.storage.cid import cid_of
from tests.http_server import QuietHandler, serving_http


class Node:
    """Blocks by CID, in memory; `broken` makes it answer with an error, `liar` with another CID."""

    def __init__(self) -> None:
        self.blocks: dict[str, bytes] = {}
        self.pinned: set[str] = set()
        self.broken = self.liar = False
        node = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:  # noqa: N802 - the name of the library
                self.answer(*node.answer(self.path, self.headers.get("Content-Type", ""), self.body()))

        self._server = ExitStack()
        self.url = self._server.enter_context(serving_http(Handler))

    def answer(self, url: str, media: str, body: bytes) -> tuple[int, bytes]:
        """Answer one call."""
        path, query = urlsplit(url).path, parse_qs(urlsplit(url).query)
        if self.broken:
            return 500, b'{"Message":"the node is broken","Code":0,"Type":"error"}'
        if path == "/api/v0/block/put":
            assert query["cid-codec"] == ["raw"]
            assert query["mhtype"] == ["sha2-256"]
            assert re.match(r"multipart/form-data; boundary=", media)
            parsed = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {media}\r\n\r\n".encode() + body)
            [part] = parsed.iter_parts()
            data = part.get_payload(decode=True)
            assert isinstance(data, bytes)
            cid = cid_of(data)
            self.blocks[cid] = data
            if query.get("pin") == ["true"]:
                self.pinned.add(cid)
            return 200, json.dumps({"Key": "bafkother" if self.liar else cid, "Size": len(data)}).encode()
        if path == "/api/v0/block/get":
            found = self.blocks.get(query["arg"][0])
            return (200, found) if found is not None else (500, b'{"Message":"block was not found locally"}')
        return 404, b"404 page not found"

    def close(self) -> None:
        """Stop the node."""
        self._server.close()


@contextmanager
def running_node() -> Iterator[Node]:
    """Run a node within a block."""
    node = Node()
    try:
        yield node
    finally:
        node.close()
