"""Content identifiers, compared with those of IPFS itself."""

from __future__ import annotations

import base64
import hashlib

import pytest

from tabellion.storage.cid import cid_of, is_cid_of


@pytest.mark.parametrize(
    ("data", "cid"),
    [
        (b"", "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"),
        (b"hello world", "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e"),
    ],
)
def test_the_cid_is_that_of_ipfs(data: bytes, cid: str) -> None:
    """Raw bytes, CIDv1, SHA-256, base32."""
    assert cid_of(data) == cid


def test_the_codec_says_nothing_about_the_bytes() -> None:
    """Nodes give the same block a CID of dag-json (0x0129) or raw bytes; other bytes and other texts do not match."""
    data = b'{"pi":"x"}'
    digest = hashlib.sha256(data).digest()
    dag_json = "b" + base64.b32encode(b"\x01\xa9\x02\x12\x20" + digest).decode().lower().rstrip("=")
    assert dag_json.startswith("baguqe")
    assert is_cid_of(cid_of(data), data)
    assert is_cid_of(dag_json, data)
    version_0 = "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPU6X"
    for cid in (cid_of(data + b" "), cid_of(data).upper(), cid_of(data)[1:], version_0, ""):
        assert not is_cid_of(cid, data), cid
