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
    return _encode(PREFIX + hashlib.sha256(data).digest())


def is_cid_of(cid: str, data: bytes) -> bool:
    """Whether a CID is that of these bytes: of version 1, by SHA-256, in lower-case base32, of any codec."""
    text = cid[1:].upper()
    try:
        decoded = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        return False
    digest = PREFIX[2:] + hashlib.sha256(data).digest()  # the codec before it is a number of one to nine bytes
    return cid == _encode(decoded) and decoded[:1] == PREFIX[:1] and decoded.endswith(digest) and len(decoded) <= 44


def _encode(cid: bytes) -> str:
    return "b" + base64.b32encode(cid).decode().lower().rstrip("=")
