"""Content identifiers, compared with those of IPFS itself."""

from __future__ import annotations

import pytest

from tabellion.storage.cid import cid_of


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
