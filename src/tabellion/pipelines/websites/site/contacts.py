"""Finds e-mail addresses, telephone numbers and postal addresses on a page, and rejects what only looks like one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from lxml.html import HtmlElement

from tabellion.pipelines.websites.site.cleaning import clean_line
from tabellion.pipelines.websites.site.html_tree import text_of
from tabellion.pipelines.websites.site.postal import find_postal_addresses

MOST = 20  #: of each kind
SEARCHED = 100_000  #: characters of the visible text
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+@-])[A-Za-z0-9](?:[A-Za-z0-9._%+-]{0,62}[A-Za-z0-9_+-])?@"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,6}[A-Za-z]{2,24}(?![A-Za-z0-9@-])"
)
#: Endings of file names, which follow an at sign in the names of images for dense screens: logo@2x.png.
_FILES = frozenset({"png", "jpg", "jpeg", "gif", "webp", "svg", "css", "js", "html", "ico", "avif", "pdf", "json"})
_PLACEHOLDERS = frozenset(
    {
        "example.com", "example.org", "example.net", "domain.com", "yourdomain.com", "email.com", "mysite.com",
        "sentry.io", "ingest.sentry.io", "wixpress.com", "sentry.wixpress.com", "sentry-next.wixpress.com",
    }
)  # fmt: skip
_HASH = re.compile(r"[0-9a-f]{24,}")  # keys of error trackers have the form of an address
#: Countries of languages that are spoken in one country mostly, for numbers without a country code.
_COUNTRY_OF_LANGUAGE = {
    "fr": "FR", "de": "DE", "it": "IT", "es": "ES", "nl": "NL", "pl": "PL", "sv": "SE", "da": "DK", "fi": "FI",
    "nb": "NO", "no": "NO", "cs": "CZ", "hu": "HU", "ro": "RO", "el": "GR", "tr": "TR", "ja": "JP", "ko": "KR",
    "uk": "UA", "he": "IL", "pt": "PT",
}  # fmt: skip
_COUNTRY_OF_DOMAIN = {"uk": "GB", "eu": "", "com": "", "org": "", "net": "", "io": "", "co": "", "tv": "", "ai": ""}
_ADDRESS_PARTS = ("streetAddress", "postOfficeBoxNumber", "postalCode", "addressLocality", "addressRegion")


def read_contacts(
    tree: HtmlElement, text: str, blocks: list[dict[str, Any]], url: str, language: str
) -> dict[str, list[str]]:
    """The contacts of a page: links and structured data first, then the visible text."""
    hrefs = [str(href).strip() for href in tree.xpath("//a/@href")[:5000]]
    country = find_country(blocks, url, language)
    return {
        "emails": list(_first(_find_emails(tree, hrefs, text, blocks))),
        "phones": list(_first(_find_phones(hrefs, text, blocks, country))),
        "addresses": list(_first(_find_addresses(tree, text, blocks))),
    }


def _first(found: Iterable[str]) -> Iterator[str]:
    """The first distinct ones."""
    seen: set[str] = set()
    for value in found:
        if value and value.casefold() not in seen:
            seen.add(value.casefold())
            yield value
            if len(seen) >= MOST:
                return


def _find_emails(tree: HtmlElement, hrefs: list[str], text: str, blocks: list[dict[str, Any]]) -> Iterator[str]:
    for href in hrefs:
        if href.lower().startswith("mailto:"):
            yield check_email(unquote(href[7:].partition("?")[0]).strip())
    for protected in tree.xpath("//@data-cfemail")[:MOST]:
        yield check_email(decode_protected(str(protected)))
    for value in _values(blocks, "email"):
        yield check_email(value.removeprefix("mailto:").strip())
    for match in _EMAIL.finditer(text[:SEARCHED]):
        yield check_email(match[0])


def check_email(text: str) -> str:
    """The address with its domain in lower case; empty if it is not one that a person would write to."""
    if not _EMAIL.fullmatch(text) or len(text) > 254 or ".." in text:
        return ""
    name, _, domain = text.rpartition("@")
    domain = domain.lower()
    is_placeholder = domain in _PLACEHOLDERS or domain.endswith((".example", ".invalid", ".test", ".localhost"))
    if is_placeholder or domain.rpartition(".")[2] in _FILES or _HASH.fullmatch(name.lower()):
        return ""
    return f"{name}@{domain}"


def decode_protected(text: str) -> str:
    """The address that Cloudflare hides from robots: each byte combined with the first one; empty if it is damaged."""
    try:
        key, *rest = bytes.fromhex(text[:600])
        return bytes(byte ^ key for byte in rest).decode()
    except (ValueError, UnicodeDecodeError):
        return ""


def find_country(blocks: list[dict[str, Any]], url: str, language: str) -> str:
    """The country whose numbers the page writes without a code; empty if nothing says it."""
    for value in _values(blocks, "addressCountry"):
        if re.fullmatch(r"[A-Za-z]{2}", value):
            return value.upper()
    ending = (urlsplit(url).hostname or "").rpartition(".")[2].lower()
    if re.fullmatch(r"[a-z]{2}", ending) and (country := _COUNTRY_OF_DOMAIN.get(ending, ending.upper())):
        return country
    name, _, region = language.partition("-")
    if re.fullmatch(r"[A-Za-z]{2}", region):
        return region.upper()
    return _COUNTRY_OF_LANGUAGE.get(name.lower(), "")


def _find_phones(hrefs: list[str], text: str, blocks: list[dict[str, Any]], country: str) -> Iterator[str]:
    from phonenumbers import Leniency, PhoneNumberFormat, PhoneNumberMatcher, format_number

    for href in hrefs:
        if href.lower().startswith("tel:"):
            yield check_phone(unquote(href[4:]).partition(";")[0], country)
    for value in _values(blocks, "telephone"):
        yield check_phone(value, country)
    # Without a country only numbers with a country code are recognized; VALID refuses dates and prices.
    for match in PhoneNumberMatcher(text[:SEARCHED], country or None, leniency=Leniency.VALID, max_tries=2000):
        yield format_number(match.number, PhoneNumberFormat.INTERNATIONAL)


def check_phone(text: str, country: str) -> str:
    """The number in international form; empty if no such number can exist."""
    from phonenumbers import NumberParseException, PhoneNumberFormat, format_number, is_possible_number, parse

    try:
        number = parse(text.strip()[:40], country or None)
    except NumberParseException:
        return ""
    return format_number(number, PhoneNumberFormat.INTERNATIONAL) if is_possible_number(number) else ""


def _find_addresses(tree: HtmlElement, text: str, blocks: list[dict[str, Any]]) -> Iterator[str]:
    """Those that the page marks as such; only if it marks none, those in its text."""
    marked = [address for address in _marked_addresses(tree, blocks) if address]
    yield from marked or map(check_address, find_postal_addresses(text[-SEARCHED:]))


def _marked_addresses(tree: HtmlElement, blocks: list[dict[str, Any]]) -> Iterator[str]:
    for block in _objects(blocks):
        address = block.get("address")
        for one in address if isinstance(address, list) else [address]:
            yield _join_address(one)
    for element in tree.xpath("//*[@itemprop='address']")[:MOST]:
        yield check_address(text_of(element, 300))
    for element in tree.xpath("//address")[:MOST]:
        yield check_address(_EMAIL.sub("", text_of(element, 300)))


def _join_address(value: Any) -> str:
    if isinstance(value, str):
        return check_address(value)
    if not isinstance(value, dict):
        return ""
    parts = [clean_line(value.get(name), 120) for name in _ADDRESS_PARTS]
    country = value.get("addressCountry")
    parts.append(clean_line(country.get("name") if isinstance(country, dict) else country, 60))
    return check_address(", ".join(part for part in parts if part))


def check_address(text: str) -> str:
    """The address in one line; empty if it has no number or no words, as the byline of an article."""
    line = clean_line(text, 300).strip(" ,;")
    has_words = len(re.findall(r"[^\W\d_]{2,}", line)) >= 2
    return line if has_words and re.search(r"\d", line) and 10 <= len(line) <= 250 else ""


def _objects(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > 6:
        return
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(item, depth + 1)


def _values(blocks: list[dict[str, Any]], name: str) -> Iterator[str]:
    for block in _objects(blocks):
        stated = block.get(name)
        for value in stated if isinstance(stated, list) else [stated]:
            if isinstance(value, str) and len(value) <= 300:
                yield value
