"""Chooses which pages of a site to read besides its home page: one of each useful topic, then others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from urllib.parse import unquote, urlsplit

from tabellion.pipelines.websites.site.info import Origin, PageLink
from tabellion.pipelines.websites.site.urls import site_of

#: Topics by usefulness, with the words of their links in English, French, German, Spanish and Italian.
TOPICS: dict[str, tuple[str, ...]] = {
    "about": ("about", "about us", "who we are", "our story", "company", "a propos", "qui sommes nous", "entreprise",
              "notre histoire", "uber uns", "ueber uns", "unternehmen", "quienes somos", "sobre nosotros", "chi siamo"),
    "products": ("products", "product", "services", "solutions", "features", "platform", "what we do", "produits",
                 "nos services", "prestations", "nos solutions", "produkte", "leistungen", "losungen", "loesungen",
                 "productos", "servicios", "prodotti", "servizi"),
    "pricing": ("pricing", "prices", "plans", "tarifs", "nos tarifs", "prix", "preise", "precios", "prezzi"),
    "contact": ("contact", "contact us", "contacts", "contactez nous", "nous contacter", "kontakt", "contacto",
                "contatti"),
    "legal": ("legal", "legal notice", "imprint", "impressum", "mentions legales", "terms", "terms of service",
              "terms and conditions", "cgv", "cgu", "conditions generales", "agb", "aviso legal", "note legali"),
    "customers": ("customers", "clients", "references", "case studies", "testimonials", "nos clients", "temoignages",
                  "realisations", "kunden", "referenzen", "clientes", "clienti"),
    "team": ("team", "our team", "people", "leadership", "equipe", "notre equipe", "team members", "equipo"),
    "privacy": ("privacy", "privacy policy", "politique de confidentialite", "confidentialite", "datenschutz",
                "datenschutzerklarung", "privacidad"),
    "careers": ("careers", "jobs", "carrieres", "recrutement", "nous rejoindre", "karriere", "stellenangebote"),
    "faq": ("faq", "help", "aide", "support", "questions"),
}  # fmt: skip
_TOPIC_OF = {word: topic for topic, words in TOPICS.items() for word in words}
_FILES = re.compile(
    r"\.(?:pdf|jpe?g|png|gif|svg|webp|avif|ico|css|js|json|xml|rss|atom|zip|gz|mp[34]|docx?|xlsx?|pptx?|csv|ics|txt)$",
    re.IGNORECASE,
)
_USELESS = re.compile(
    r"/(?:log-?in|log-?out|sign-?in|sign-?up|register|cart|basket|panier|checkout|account|mon-compte|wp-admin|wp-json|"
    r"search|recherche|feed|rss|tag|tags|author|cdn-cgi)(?:[/?]|$)|/wp-login|[?&](?:add-to-cart|replytocom|s|q)=",
    re.IGNORECASE,
)


def choose_pages(
    home: str, links: Sequence[PageLink], listed: Iterable[str], count: int, read: Iterable[str] = ()
) -> list[tuple[str, Origin]]:
    """At most `count` pages of the site, the most useful first, from the links of the home page and its sitemap.

    `read` are URLs that have been read already.
    """
    seen = {same_page(url) for url in (home, *read)}
    by_topic: dict[str, tuple[str, Origin]] = {}
    others: list[tuple[str, Origin]] = []
    candidates: list[tuple[str, str, Origin]] = [(link.url, link.text, "link") for link in links]
    candidates += [(url, "", "sitemap") for url in sorted(listed, key=_depth)]
    for url, text, origin in candidates:
        key = same_page(url)
        if key in seen or site_of(url) != site_of(home) or _FILES.search(urlsplit(url).path) or _USELESS.search(url):
            continue
        seen.add(key)
        topic = find_topic(url, text)
        if topic and topic not in by_topic:
            by_topic[topic] = (url, origin)
        elif not topic:
            others.append((url, origin))
    chosen = [by_topic[topic] for topic in TOPICS if topic in by_topic]
    # A page that the sitemap lists is meant to be found; a link may be anything.
    others.sort(key=lambda one: (one[1] != "sitemap", _depth(one[0])))
    return [*chosen, *others][:count]


def find_topic(url: str, text: str) -> str:
    """The topic of a link by its text or the last parts of its path; empty if it has none."""
    segments = [_words(part) for part in unquote(urlsplit(url).path).split("/") if part]
    for words in (_words(text), *reversed(segments[-2:])):
        if topic := _TOPIC_OF.get(words):
            return topic
    return ""


def _words(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.rpartition(".")[0] if _PAGE.search(text) else text).casefold()
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return " ".join(re.findall(r"[a-z]+", letters))


_PAGE = re.compile(r"\.(?:html?|php|aspx?|jsp)$", re.IGNORECASE)


def same_page(url: str) -> str:
    """URLs of the same page have the same key: without scheme, `www.`, index file and final slash."""
    parts = urlsplit(url)
    path = re.sub(r"/(?:index|default)\.(?:html?|php|aspx?)$", "/", parts.path).rstrip("/")
    return f"{site_of(url)}{path}{f'?{parts.query}' if parts.query else ''}"


def _depth(url: str) -> tuple[int, int]:
    parts = urlsplit(url)
    return parts.path.strip("/").count("/") + (1 if parts.query else 0), len(url)
