"""Downloads of images: the variant that a CDN refuses, and its rate limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tabellion.errors import Permanent
from tabellion.pipelines.batches.images import HostLimited, ImageUnavailable, download_image
from tests.models.scripted import Answer, RecordedRequest, scripted
from tests.pipelines.batches.material import LOOPBACK, picture


def download(script: Callable[[RecordedRequest], Answer]) -> bytes:
    """Return the image of a server that answers by this function."""

    async def go() -> bytes:
        async with scripted(script) as server:
            url = f"{server.url}/asset/1"
            found = await download_image(url, LOOPBACK, variant="medium", limit=1_000_000)
            return found.data

    return asyncio.run(go())


def is_variant(request: RecordedRequest) -> bool:
    """Whether the smaller variant is requested."""
    return request.path.endswith("/medium")


@pytest.mark.parametrize("status", [400, 403, 404, 410, 415, 422])
def test_the_full_image_is_read_if_the_variant_is_refused(status: int) -> None:
    """CDNs name a variant that they do not have in different ways; refused too, the full image is an error."""
    whole = picture()
    assert download(lambda request: Answer(b"", status) if is_variant(request) else Answer(whole)) == whole
    with pytest.raises(Permanent):
        download(lambda _: Answer(b"", status))


@pytest.mark.parametrize(("status", "error"), [(408, ImageUnavailable), (429, HostLimited), (503, ImageUnavailable)])
def test_a_variant_that_cannot_be_given_now_is_asked_for_again(status: int, error: type[Exception]) -> None:
    """The full image would be a larger load for a server that has too much of it."""
    with pytest.raises(error):
        download(lambda request: Answer(b"", status) if is_variant(request) else Answer(picture()))


@pytest.mark.parametrize(("header", "asked"), [("40", 40.0), ("", None), ("soon", None)])
def test_a_rate_limit_says_how_long(header: str, asked: float | None) -> None:
    """If the server does."""
    with pytest.raises(HostLimited) as raised:
        download(lambda _: Answer(b"", 429, {"retry-after": header}))
    assert raised.value.asked == asked


@pytest.mark.parametrize(
    "answer",
    [Answer(b"", 302, {"location": "/asset/1"}), Answer(b"\x1f\x8b", 200, {"content-encoding": "gzip"})],
    ids=["redirects", "compressed"],
)
def test_what_the_next_request_would_meet_again_is_permanent(answer: Answer) -> None:
    """A redirect to itself, and a response compressed though nobody asked: a retry would download it again in vain."""
    with pytest.raises(Permanent):
        download(lambda _: answer)
