"""Content identifiers: CIDv1 of raw bytes by SHA-256, as IPFS computes them."""

from __future__ import annotations

import base64
import hashlib

#: Version 1, raw bytes, SHA-256, 32 bytes long; "b" marks base32 in lower case.
PREFIX = b"\x01\x55\x12\x20"


def cid_of(data: bytes) -> str:
    """The CID of bytes.

    >>> cid_of(b"hello world")
    'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'
    """
    digest = PREFIX + hashlib.sha256(data).digest()
    return "b" + base64.b32encode(digest).decode().lower().rstrip("=")
