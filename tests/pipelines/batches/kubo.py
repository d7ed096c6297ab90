"""An IPFS node for tests: the two calls of Kubo's HTTP API that are used, as its documentation describes them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tabellion.storage.cid import cid_of


class Node:
    """Blocks by CID, in memory; `broken` makes it answer with an error, `liar` with another CID."""

    def __init__(self) -> None:
        self.blocks: dict[str, bytes] = {}
        self.pinned: set[str] = set()
        self.broken = self.liar = False
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, answer = node.answer(self.path, self.headers.get("Content-Type", ""), body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Stay quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, name="kubo", daemon=True).start()

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
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def running_node() -> Iterator[Node]:
    """Run a node within a block."""
    node = Node()
    try:
        yield node
    finally:
        node.close()
