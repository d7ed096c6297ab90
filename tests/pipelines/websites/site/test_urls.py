"""URLs: as people type them, and as pages link."""

from __future__ import annotations

import pytest

from tabellion.pipelines.websites.site.urls import join_url, normalize_url, site_of


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("Example.COM", "https://example.com/"),
        ("  https://example.com  ", "https://example.com/"),
        ("example.com:8080/a b", "https://example.com:8080/a%20b"),
        ("//example.com/x#part", "https://example.com/x"),
        ("HTTP://EXAMPLE.com:80/A?b=C#d", "http://example.com/A?b=C"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("https://example.com.", "https://example.com/"),
        ("127.0.0.1", "https://127.0.0.1/"),
    ],
)
def test_a_typed_address_becomes_one_url(typed: str, url: str) -> None:
    """And stays the same when it is normalized again."""
    assert normalize_url(typed) == url
    assert normalize_url(url) == url


@pytest.mark.parametrize(
    "typed",
    ["", "   ", "https://", "ftp://example.com", "javascript:alert(1)", "https://a:b@example.com", "https://0x7f.1"],
)
def test_what_is_not_a_web_address_is_a_value_error(typed: str) -> None:
    """With the reason."""
    with pytest.raises(ValueError, match=r"."):
        normalize_url(typed)


@pytest.mark.parametrize(
    ("link", "url"),
    [
        ("/a", "https://example.com/a"), ("b#c", "https://example.com/x/b"), ("//cdn.example/y", "https://cdn.example/y"),
        ("mailto:a@b.c", ""), ("javascript:void(0)", ""), ("", ""), ("http://[", ""), ("/" + "a" * 3000, ""),
    ],
)  # fmt: skip
def test_a_link_is_absolute_or_nothing(link: str, url: str) -> None:
    """Without its fragment."""
    assert join_url("https://example.com/x/", link) == url


def test_a_site_is_a_host_with_its_port() -> None:
    """With or without www, http or https."""
    assert site_of("http://www.example.com/a") == site_of("https://example.com:443/") == "example.com"
    assert site_of("http://example.com:8080/") == "example.com:8080"
    assert site_of("http://example.com:port/") == ""
