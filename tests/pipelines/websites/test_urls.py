"""URLs in one form: two spellings of a website are one job."""

from __future__ import annotations

import pytest

from tabellion.net.guard import Blocked
from tabellion.pipelines.websites.urls import complete_url, normalize_url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("example.com", "https://example.com/"),
        ("HTTP://Example.COM:80", "http://example.com/"),
        ("https://example.com:443/a?b=C#part", "https://example.com/a?b=C"),
        (" https://example.com/A/ ", "https://example.com/A/"),
        ("https://bücher.example/straße", "https://xn--bcher-kva.example/stra%C3%9Fe"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
    ],
)
def test_spellings_of_a_website_become_one(text: str, url: str) -> None:
    """Host in small letters, no default port, no fragment; path and query as they are."""
    assert normalize_url(text) == url
    assert normalize_url(url) == url


@pytest.mark.parametrize("text", ["", "ftp://example.com", "https://user:secret@example.com", "https://exa mple.com"])
def test_what_is_not_a_website_is_refused(text: str) -> None:
    """With the guard's own reason."""
    with pytest.raises(Blocked):
        normalize_url(text)


def test_a_name_alone_means_https() -> None:
    """As people type it."""
    assert complete_url("example.com/path") == "https://example.com/path"
