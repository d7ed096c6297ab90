"""Finds the profiles of a site's owner on social networks among its links."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

MOST = 30
#: Hosts of each network, and what the path of a profile looks like.
NETWORKS: dict[str, tuple[tuple[str, ...], str]] = {
    "LinkedIn": (("linkedin.com",), r"/(company|in|school|showcase)/[^/]+"),
    "Facebook": (("facebook.com", "fb.com"), r"/(?:pages/[^/]+/\d+|profile\.php|[A-Za-z0-9.\-]{3,})"),
    "Instagram": (("instagram.com",), r"/[A-Za-z0-9._]{2,30}"),
    "X": (("twitter.com", "x.com"), r"/[A-Za-z0-9_]{1,15}"),
    "YouTube": (("youtube.com",), r"/(?:@[^/]+|(?:c|channel|user)/[^/]+)"),
    "TikTok": (("tiktok.com",), r"/@[^/]+"),
    "GitHub": (("github.com",), r"/[A-Za-z0-9-]{1,39}"),
    "GitLab": (("gitlab.com",), r"/[A-Za-z0-9_.-]{2,}"),
    "Pinterest": (("pinterest.com", "pinterest.fr", "pinterest.ca", "pinterest.de", "pinterest.co.uk"), r"/[^/]{3,30}"),
    "Vimeo": (("vimeo.com",), r"/(?!\d+$)[A-Za-z0-9]{3,}"),
    "Threads": (("threads.net", "threads.com"), r"/@[^/]+"),
    "Bluesky": (("bsky.app",), r"/profile/[^/]+"),
    "Mastodon": (("mastodon.social", "fosstodon.org", "mastodon.online", "mstdn.social", "hachyderm.io"), r"/@[^/]+"),
    "Discord": (("discord.gg", "discord.com"), r"/(?:invite/)?[A-Za-z0-9-]{4,}"),
    "Telegram": (("t.me",), r"/[A-Za-z0-9_]{4,}"),
    "WhatsApp": (("wa.me",), r"/\d{6,}"),
    "Xing": (("xing.com",), r"/(?:companies|pages|profile)/[^/]+"),
}
_NETWORK_OF = {host: network for network, (hosts, _) in NETWORKS.items() for host in hosts}
_PREFIX = re.compile(r"^(?:www|m|mobile|[a-z]{2})\.")
#: First parts of paths that are functions of the networks, mostly for sharing a page, not profiles.
_FUNCTIONS = frozenset(
    {
        "share", "sharer", "sharer.php", "intent", "dialog", "plugins", "login", "signup", "home", "search", "hashtag",
        "explore", "legal", "privacy", "terms", "about", "policies", "help", "settings", "features", "pricing", "p",
        "reel", "reels", "watch", "embed", "i", "tr", "groups", "events", "pin", "sharearticle", "download", "apps",
        "orgs", "topics", "marketplace", "sponsors", "collections", "security", "contact", "site", "blog", "s", "app",
    }
)  # fmt: skip


def find_profiles(urls: Iterable[str]) -> list[dict[str, str]]:
    """The distinct profiles among these URLs, in their order."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for url in urls:
        profile = read_profile(url)
        if profile is not None:
            found.setdefault((profile["network"], profile["url"].casefold()), profile)
            if len(found) >= MOST:
                break
    return list(found.values())


def read_profile(url: str) -> dict[str, str] | None:
    """The network and the URL of a profile, without tracking; None for anything else."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
    except ValueError:
        return None
    network = _NETWORK_OF.get(host) or _NETWORK_OF.get(_PREFIX.sub("", host))
    if network is None or parts.path.strip("/").split("/")[0].lower() in _FUNCTIONS:
        return None
    match = re.fullmatch(f"({NETWORKS[network][1]})(?:/|/about/?|/featured/?)?", parts.path)
    if match is None:
        return None
    query = f"?{parts.query}" if match[1] == "/profile.php" else ""
    return {"network": network, "url": f"https://{host}{match[1]}{query}"}


def same_as(blocks: Iterable[dict[str, Any]]) -> list[str]:
    """The profiles that JSON-LD states as `sameAs`."""
    urls: list[str] = []
    for block in blocks:
        for owner in (block, block.get("publisher"), block.get("author")):
            stated = owner.get("sameAs") if isinstance(owner, dict) else None
            urls += [one for one in (stated if isinstance(stated, list) else [stated]) if isinstance(one, str)]
    return urls[:100]
