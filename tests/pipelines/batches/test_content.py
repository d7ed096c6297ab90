"""Content-addressed storage: the same promises in a folder, in a bucket and in an IPFS node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tabellion.errors import ConfigurationError
from tabellion.net.guard import Rules
from tabellion.pipelines.batches.content import (
    ContentDamaged,
    ContentError,
    ContentMissing,
    ContentStore,
    IpfsContent,
    LakeContent,
    NodeError,
    open_content,
)
from tabellion.storage.cid import cid_of
from tabellion.storage.lake import Lake
from tests.pipelines.batches.kubo import Node, running_node

Value = TypeVar("Value")
LOOPBACK = Rules.of(["127.0.0.0/8"])


@pytest.fixture
def node() -> Iterator[Node]:
    """An IPFS node."""
    with running_node() as one:
        yield one


def run(work: Awaitable[Value]) -> Value:
    """Run a coroutine."""

    async def go() -> Value:
        return await work

    return asyncio.run(go())


async def put_and_get(content: ContentStore, data: bytes) -> tuple[str, bytes]:
    """Store bytes twice and read them."""
    cid = await content.put(data)
    assert await content.put(data) == cid
    found = await content.get(cid)
    await content.close()
    return cid, found


def test_bytes_are_stored_under_their_cid(lake: Lake) -> None:
    """In a folder and in a bucket; storing them again changes nothing."""
    data = b"a ref file \x00\xff"
    assert run(put_and_get(LakeContent(lake), data)) == (cid_of(data), data)


def test_a_node_stores_raw_blocks(node: Node) -> None:
    """The block is pinned under the CID that we compute ourselves, whatever bytes it has."""
    data = b"--tabellion-block\r\n \x00\xff\r\n"
    assert run(put_and_get(IpfsContent(node.url, LOOPBACK), data)) == (cid_of(data), data)
    assert node.pinned == {cid_of(data)}


def test_missing_content_is_an_error(lake: Lake, node: Node) -> None:
    """Also a text that is not a CID at all."""
    for content in (LakeContent(lake), IpfsContent(node.url, LOOPBACK)):
        for cid in (cid_of(b"never stored"), "../../etc/passwd", "x"):
            with pytest.raises(ContentMissing):
                run(content.get(cid))


def test_damaged_content_is_written_again(tmp_path: Path) -> None:
    """A file that does not match its CID is not returned, and storing the bytes repairs it."""
    content = LakeContent(Lake(str(tmp_path)))
    cid = run(content.put(b"whole"))
    [path] = tmp_path.rglob(cid)
    path.write_bytes(b"half")
    with pytest.raises(ContentDamaged, match="damaged"):
        run(content.get(cid))
    run(content.put(b"whole"))
    assert run(content.get(cid)) == b"whole"


def test_a_node_that_fails_is_not_missing_content(node: Node) -> None:
    """An error at storing and a node that is down can be tried again; another CID than ours is refused."""
    content = IpfsContent(node.url, LOOPBACK)
    node.liar = True
    with pytest.raises(ContentError, match="not as"):
        run(content.put(b"x"))
    node.broken = True
    with pytest.raises(NodeError, match="the node is broken"):
        run(content.put(b"x"))
    node.close()
    with pytest.raises(ContentError) as raised:
        run(content.get(cid_of(b"x")))
    assert not isinstance(raised.value, ContentMissing)


def test_only_what_a_node_says_that_it_does_not_have_is_missing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout of its search in the network, an overload and a proxy's page say nothing about the content."""
    content = IpfsContent(node.url, LOOPBACK)
    for status, text, is_missing in (
        (500, b"block was not found locally (offline): ipld: could not find x", True), (500, b"invalid cid", True),
        (500, b"context deadline exceeded", False), (503, b"overloaded", False), (403, b"no", False),
    ):  # fmt: skip
        monkeypatch.setattr(node, "answer", lambda *_, status=status, text=text: (status, text))
        with pytest.raises(ContentError) as raised:
            run(content.get(cid_of(b"x")))
        assert isinstance(raised.value, ContentMissing) == is_missing, text


def test_content_beyond_every_size_is_not_read(tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others have stored must not fill the memory."""
    for content in (LakeContent(Lake(str(tmp_path))), IpfsContent(node.url, LOOPBACK)):
        cid = run(content.put(b"x" * 100))
        monkeypatch.setattr("tabellion.pipelines.batches.content.LARGEST", 99)
        with pytest.raises(ContentDamaged, match="more than"):
            run(content.get(cid))
        monkeypatch.setattr("tabellion.pipelines.batches.content.LARGEST", 1000)
        run(content.get(cid))


def test_a_node_is_asked_only_where_the_guard_allows(node: Node) -> None:
    """A node on loopback needs to be configured."""
    with pytest.raises(ContentError, match="cannot be reached"):
        run(IpfsContent(node.url).put(b"x"))


def test_an_address_names_the_store(tmp_path: Path) -> None:
    """A folder, a bucket or a node; anything else is refused."""
    assert isinstance(open_content(str(tmp_path)), LakeContent)
    assert isinstance(open_content("ipfs+http://127.0.0.1:5001"), IpfsContent)
    with pytest.raises(ConfigurationError, match=r"batches\.content"):
        open_content("ftp://host/x")
