"""Social profiles: profiles, not buttons for sharing or links to single posts."""

from __future__ import annotations

import pytest

from tabellion.pipelines.websites.site.social import find_profiles, read_profile, same_as


@pytest.mark.parametrize(
    ("url", "network", "profile"),
    [
        ("https://www.linkedin.com/company/bakery/about/?x=1", "LinkedIn", "https://www.linkedin.com/company/bakery"),
        ("http://fr.linkedin.com/in/jane", "LinkedIn", "https://fr.linkedin.com/in/jane"),
        ("https://twitter.com/bakery/", "X", "https://twitter.com/bakery"),
        ("https://www.youtube.com/@bakery", "YouTube", "https://www.youtube.com/@bakery"),
        ("https://www.facebook.com/profile.php?id=1", "Facebook", "https://www.facebook.com/profile.php?id=1"),
        ("https://github.com/bakery", "GitHub", "https://github.com/bakery"),
    ],
)
def test_a_profile_is_recognized_and_freed_of_tracking(url: str, network: str, profile: str) -> None:
    """By its host and the form of its path."""
    assert read_profile(url) == {"network": network, "url": profile}


@pytest.mark.parametrize(
    "url",
    [
        "https://twitter.com/intent/tweet?text=x",
        "https://www.facebook.com/sharer/sharer.php?u=x",
        "https://www.linkedin.com/shareArticle?mini=true",
        "https://twitter.com/bakery/status/1",
        "https://github.com/bakery/oven",
        "https://www.youtube.com/watch?v=1",
        "https://www.instagram.com/",
        "https://raw.github.com/bakery",
        "https://notfacebook.com/bakery",
        "https://facebook.com.evil.example/bakery",
        "http://[",
    ],
)
def test_other_links_are_not_profiles(url: str) -> None:
    """Functions of the networks, posts, and hosts that look alike."""
    assert read_profile(url) is None


def test_each_profile_is_listed_once() -> None:
    """In the order of the links, with those of structured data."""
    stated = same_as([{"sameAs": ["https://x.com/bakery", 5]}, {"publisher": {"sameAs": "https://github.com/bakery"}}])
    found = find_profiles(["https://x.com/Bakery", *stated])
    assert [one["url"] for one in found] == ["https://x.com/Bakery", "https://github.com/bakery"]
