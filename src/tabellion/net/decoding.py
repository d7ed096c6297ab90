"""Decompresses an HTTP body piece by piece, never beyond a limit of bytes: a small answer may expand a thousandfold."""

from __future__ import annotations

import zlib

#: Sent as Accept-Encoding: what this module decodes and nothing else.
ACCEPTED = "gzip, deflate"
_EITHER = 32 + zlib.MAX_WBITS  # zlib finds out itself whether the data is gzip or zlib
GZIP_MAGIC = b"\x1f\x8b"


class DecodingFailed(ValueError):  # noqa: N818 - what happened
    """The body is damaged, or has an encoding that was not requested."""


class BodyDecoder:
    """Decodes the pieces of one body up to `limit` bytes; `is_cut` says whether there was more."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise DecodingFailed(f"the encoding {self._encoding[:40]!r} was not requested")
        self._limit = limit
        self._decoder = zlib.decompressobj(_EITHER) if self._is_compressed else None
        self._members = 0  #: complete ones
        self._has_begun = self._is_raw = self._has_ended = False
        self._first = b""
        self.is_cut = False
        self.body = bytearray()

    @property
    def _is_compressed(self) -> bool:
        return self._encoding not in ("", "identity")

    def feed(self, piece: bytes) -> bool:
        """Takes the next piece; returns whether more are wanted."""
        if self._encoding == "deflate" and not self._has_begun:
            self._first += piece
            if len(self._first) < 2:
                return True  # zlib needs two bytes to see that its header is missing
            self._has_begun, piece = True, self._first
        while piece and not self.is_cut and not self._has_ended:
            room = self._limit - len(self.body)
            if self._decoder is None:
                self.body += piece[:room]
                self.is_cut = len(piece) > room
                break
            piece = self._inflate(piece, room)
        return not self.is_cut and not self._has_ended

    def _inflate(self, piece: bytes, room: int) -> bytes:
        """Decodes what fits; returns the data of the next gzip member, if the piece contains its beginning."""
        decoder = self._decoder
        assert decoder is not None  # noqa: S101 - the caller has checked
        try:
            # One byte more than there is room for tells a body that fits exactly from a longer one.
            self.body += decoder.decompress(piece, room + 1)
        except zlib.error as error:
            if self._members:
                self._has_ended = True  # what follows the end is padding
                return b""
            if self._encoding != "deflate" or self._is_raw or self.body:
                raise DecodingFailed("the compressed data is damaged") from error
            self._is_raw = True
            self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers send deflate without its header
            return piece
        if len(self.body) > self._limit:
            del self.body[self._limit :]
            self.is_cut = True
            return b""
        if not decoder.eof:
            return b""
        self._members += 1
        self._decoder = zlib.decompressobj(_EITHER)
        return decoder.unused_data


def decompress(data: bytes, limit: int) -> tuple[bytes, bool]:
    """A gzip file decoded up to `limit` bytes, and whether there was more; other data is returned as it is."""
    if not data.startswith(GZIP_MAGIC):
        return data[:limit], len(data) > limit
    decoder = BodyDecoder("gzip", limit)
    decoder.feed(data)
    return bytes(decoder.body), decoder.is_cut
