"""Normalises the URL of a website, so that two spellings of it are one job."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from urllib.parse import quote

from tabellion.net import guard

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def complete_url(text: str) -> str:
    """The URL that a person means: `example.com` is https, and other letters than ASCII are encoded."""
    text = text.strip()
    url = text if _SCHEME.match(text) else f"https://{text}"
    if url.isascii():
        return url
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    with contextlib.suppress(UnicodeError):  # the guard says what is wrong with it
        host = host.encode("idna").decode("ascii")
    return f"{scheme}://{host}{slash}{quote(path, safe='/?&=#%:;+,!$()*@~-._')}"


def normalize_url(text: str) -> str:
    """The URL in one form: host in small letters, no default port, no fragment, `/` for an empty path.

    Raises Blocked for what is not an http or https URL. The path and query stay as they are: servers may tell
    `/a` from `/A` and from `/a/`.
    """
    target = guard.parse(complete_url(text))
    return replace(target, rest=target.rest.partition("#")[0] or "/").url
