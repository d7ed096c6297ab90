"""Decompressing a body: pieces of any size, several members, damage, and never more than the limit."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from tabellion.net.decoding import BodyDecoder, DecodingFailed, decompress

TEXT = b"The register of deeds. " * 200


def decode(data: bytes, encoding: str, limit: int = 1_000_000, size: int = 7) -> tuple[bytes, bool]:
    decoder = BodyDecoder(encoding, limit)
    for start in range(0, len(data), size):
        if not decoder.feed(data[start : start + size]):
            break
    return bytes(decoder.body), decoder.is_cut


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT)),
        ("X-GZIP ", gzip.compress(TEXT)),
        ("gzip", gzip.compress(TEXT[:50]) + gzip.compress(TEXT[50:])),
        ("gzip", gzip.compress(TEXT) + b"\0" * 100),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)[2:-4]),
    ],
    ids=["none", "identity", "gzip", "x-gzip", "members", "padding", "zlib", "raw"],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_body_is_decoded_whatever_the_size_of_its_pieces(encoding: str, data: bytes, size: int) -> None:
    """Including several gzip members, padding, and deflate without its header."""
    assert decode(data, encoding, size=size) == (TEXT, False)


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_a_body_is_cut_at_the_limit_and_not_before(encoding: str) -> None:
    """A body that fits exactly is whole."""
    data = {"": TEXT, "gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT)}[encoding]
    assert decode(data, encoding, len(TEXT)) == (TEXT, False)
    assert decode(data, encoding, len(TEXT) - 1) == (TEXT[:-1], True)


def test_a_bomb_takes_no_more_memory_than_the_limit() -> None:
    """A megabyte that expands to a gigabyte is decoded up to the limit only."""
    compressor = zlib.compressobj(9, wbits=31)
    million = b"\0" * 1_000_000
    bomb = b"".join(compressor.compress(million) for _ in range(1000)) + compressor.flush()
    tracemalloc.start()
    body, is_cut = decode(bomb, "gzip", 2_000_000, len(bomb))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(body), is_cut) == (2_000_000, True)
    assert peak < 12_000_000


@pytest.mark.parametrize(("encoding", "data"), [("gzip", b"not gzip at all"), ("br", b"x"), ("gzip, gzip", b"x")])
def test_damaged_and_unrequested_encodings_fail(encoding: str, data: bytes) -> None:
    """Only what was requested is decoded."""
    with pytest.raises(DecodingFailed):
        decode(data, encoding)


def test_a_gzip_file_is_recognized_by_its_first_bytes() -> None:
    """Other data is returned as it is, up to the limit."""
    assert decompress(gzip.compress(TEXT), 10_000) == (TEXT, False)
    assert decompress(TEXT, 10) == (TEXT[:10], True)
