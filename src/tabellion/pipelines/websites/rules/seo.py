"""Reviews a website for search engines by rules: titles, descriptions, headings, structured data, and the like."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import urlsplit

from tabellion.messages import Message
from tabellion.pipelines.websites.result import ResultItem, Source
from tabellion.pipelines.websites.rules.checks import Check, findings_of, score_of, summary_of
from tabellion.pipelines.websites.rules.passages import structured_objects, types_of
from tabellion.pipelines.websites.rules.stop_words import STOP_WORDS
from tabellion.pipelines.websites.site.info import WebsiteInfo

SHORTEST_TITLE = 15  #: characters; fewer say nothing but "Home" or a name
LONGEST_TITLE = 65  #: characters that search engines show whole
DESCRIPTION = (60, 165)
LEAST_WORDS = 200  #: of a home page
SLOW = 3.0  #: seconds until the home page was there
MOST_KEYWORDS = 12
_WORD = re.compile(r"[^\W\d_]{3,}")


def review(info: WebsiteInfo) -> dict[str, tuple[ResultItem, ...]]:
    """The fields of the type `seo`."""
    checks = [*_title(info), *_description(info), *_structure(info), *_addresses(info), *_sharing(info), *_site(info)]
    score = score_of(checks)
    summary = summary_of(checks, score, "website_seo.summary_faults", "website_seo.summary_fine")
    return {
        "summary": (summary,), "score": (ResultItem(score),), "keywords": _keywords(info),
        "findings": findings_of(checks),
    }  # fmt: skip


def _title(info: WebsiteInfo) -> Iterator[Check]:
    """Judges `<title>` as it is: search engines show it with the site's name, and never the title of Open Graph."""
    title = info.page_title
    source = (Source("title", title, info.final_url),)
    if not title:
        yield Check("bad", Message("website_seo.title_missing"), Message("website_seo.title_missing_why"),
                    Message("website_seo.title_missing_fix"), weight=3)  # fmt: skip
    elif len(title) < SHORTEST_TITLE:
        yield Check("warning", Message("website_seo.title_length", n=len(title)),
                    Message("website_seo.title_short_why"), Message("website_seo.title_missing_fix"), source,
                    weight=2)  # fmt: skip
    elif len(title) > LONGEST_TITLE:
        yield Check("warning", Message("website_seo.title_length", n=len(title)),
                    Message("website_seo.title_length_why", most=LONGEST_TITLE),
                    Message("website_seo.title_length_fix"), source, weight=2)  # fmt: skip
    else:
        yield Check("good", Message("website_seo.title_good"), sources=source, weight=3)
    titles = Counter(page.page_title for page in info.pages if page.page_title)
    repeated = [title for title, count in titles.items() if count > 1]
    if repeated:
        pages = [page for page in info.pages if page.page_title == repeated[0]]
        yield Check("warning", Message("website_seo.titles_repeated", n=len(pages)),
                    Message("website_seo.titles_repeated_why"), Message("website_seo.titles_repeated_fix"),
                    tuple(Source("title", page.page_title, page.url) for page in pages[:3]))  # fmt: skip


def _description(info: WebsiteInfo) -> Iterator[Check]:
    source = (Source("description", info.description, info.final_url),) if info.description else ()
    least, most = DESCRIPTION
    if not info.description:
        yield Check("bad", Message("website_seo.description_missing"), Message("website_seo.description_missing_why"),
                    Message("website_seo.description_missing_fix"), weight=2)  # fmt: skip
    elif not least <= len(info.description) <= most:
        yield Check("warning", Message("website_seo.description_length", n=len(info.description)),
                    Message("website_seo.description_length_why", least=least, most=most),
                    Message("website_seo.description_length_fix"), source, weight=1.5)  # fmt: skip
    else:
        yield Check("good", Message("website_seo.description_good", n=len(info.description)), sources=source, weight=2)


def _structure(info: WebsiteInfo) -> Iterator[Check]:
    tops = [heading for heading in info.headings if heading.level == 1]
    sources = tuple(Source("heading", heading.text, info.final_url) for heading in tops[:3])
    if not tops:
        yield Check("bad", Message("website_seo.h1_missing"), Message("website_seo.h1_why"),
                    Message("website_seo.h1_missing_fix"), weight=2)  # fmt: skip
    elif len(tops) > 1:
        yield Check("warning", Message("website_seo.h1_several", n=len(tops)), Message("website_seo.h1_why"),
                    Message("website_seo.h1_several_fix"), sources)  # fmt: skip
    else:
        yield Check("good", Message("website_seo.h1_good"), sources=sources, weight=2)
    levels = [heading.level for heading in info.headings]
    skipped = [(above, below) for above, below in pairwise(levels) if below > above + 1]
    if skipped:
        above, below = skipped[0]
        heading = info.headings[levels.index(below)]
        yield Check("info", Message("website_seo.headings_skip", above=above, below=below),
                    Message("website_seo.headings_skip_why"),
                    sources=(Source("heading", heading.text, info.final_url),))  # fmt: skip
    words = len(info.text.split())
    if words < LEAST_WORDS:
        yield Check("warning", Message("website_seo.text_short", n=words),
                    Message("website_seo.text_short_why", least=LEAST_WORDS), Message("website_seo.text_short_fix"),
                    weight=2)  # fmt: skip
    else:
        yield Check("good", Message("website_seo.text_enough", n=words), weight=2)
    if info.rendered:
        yield Check("warning", Message("website_seo.scripts_needed"), Message("website_seo.scripts_needed_why"),
                    Message("website_seo.scripts_needed_fix"))  # fmt: skip
    kinds = sorted({kind for thing in structured_objects(info) for kind in types_of(thing)})
    if kinds:
        yield Check("good", Message("website_seo.structured_good", names=kinds[:6]),
                    sources=(Source("structured", ", ".join(kinds[:6]), info.final_url),), weight=1.5)  # fmt: skip
    else:
        yield Check("warning", Message("website_seo.structured_missing"), Message("website_seo.structured_why"),
                    Message("website_seo.structured_fix"), weight=1.5)  # fmt: skip


def _addresses(info: WebsiteInfo) -> Iterator[Check]:
    if urlsplit(info.final_url).scheme == "https":
        yield Check("good", Message("website_seo.https_good"), weight=2)
    else:
        yield Check("bad", Message("website_seo.https_missing"), Message("website_seo.https_why"),
                    Message("website_seo.https_fix"), (Source("address", info.final_url, info.final_url),),
                    weight=2)  # fmt: skip
    if len(info.redirects) > 1:
        yield Check("warning", Message("website_seo.redirects", n=len(info.redirects)),
                    Message("website_seo.redirects_why"), Message("website_seo.redirects_fix"),
                    tuple(Source("address", url, url) for url in info.redirects[:3]))  # fmt: skip
    if not info.canonical:
        yield Check("warning", Message("website_seo.canonical_missing"), Message("website_seo.canonical_why"),
                    Message("website_seo.canonical_fix"))  # fmt: skip
    elif _plain(info.canonical) != _plain(info.final_url):
        yield Check("info", Message("website_seo.canonical_other", url=info.canonical),
                    Message("website_seo.canonical_why"))  # fmt: skip
    else:
        yield Check("good", Message("website_seo.canonical_good"))


def _sharing(info: WebsiteInfo) -> Iterator[Check]:
    names = {name.removeprefix("og:") for name, value in info.open_graph.items() if value}
    missing = [name for name in ("title", "description", "image") if name not in names]
    if not missing:
        yield Check("good", Message("website_seo.sharing_good"))
    else:
        yield Check("warning", Message("website_seo.sharing_missing", names=missing),
                    Message("website_seo.sharing_why"), Message("website_seo.sharing_fix"))  # fmt: skip


def _site(info: WebsiteInfo) -> Iterator[Check]:
    if info.language:
        yield Check("good", Message("website_seo.language_good", value=info.language))
    else:
        yield Check("warning", Message("website_seo.language_missing"), Message("website_seo.language_why"),
                    Message("website_seo.language_fix"))  # fmt: skip
    blocking = [Source("header", f"X-Robots-Tag: {value}", info.final_url) for name, value in info.headers.items()
                if name.lower() == "x-robots-tag" and "noindex" in value.lower()]  # fmt: skip
    blocking += [Source("meta", page.robots_meta, page.url) for page in info.pages[:1]
                 if {"noindex", "none"} & set(re.split(r"[,\s]+", page.robots_meta.lower()))]  # fmt: skip
    if blocking:
        yield Check("bad", Message("website_seo.noindex"), Message("website_seo.noindex_why"),
                    Message("website_seo.noindex_fix"), tuple(blocking[:1]), weight=4)  # fmt: skip
    sitemap = bool(info.robots.sitemaps) or any(page.found == "sitemap" for page in info.pages)
    if sitemap:
        yield Check("good", Message("website_seo.sitemap_good"),
                    sources=tuple(Source("robots", url, url) for url in info.robots.sitemaps[:2]))  # fmt: skip
    else:
        yield Check("warning", Message("website_seo.sitemap_missing"), Message("website_seo.sitemap_why"),
                    Message("website_seo.sitemap_fix"))  # fmt: skip
    if not info.robots.exists:
        yield Check("info", Message("website_seo.robots_missing"), Message("website_seo.robots_why"))
    if info.links.internal_count < 3:
        yield Check("warning", Message("website_seo.links_few", n=info.links.internal_count),
                    Message("website_seo.links_why"), Message("website_seo.links_fix"))  # fmt: skip
    seconds = info.timings.get("home") or info.timings.get("fetch") or 0.0
    if seconds > SLOW:
        yield Check("warning", Message("website_seo.slow", n=round(seconds, 1)), Message("website_seo.slow_why"),
                    Message("website_seo.slow_fix"), weight=1.5)  # fmt: skip


def _keywords(info: WebsiteInfo) -> tuple[ResultItem, ...]:
    """The words that most pages use most; in titles and headings they count more."""
    counts: Counter[str] = Counter()
    spelled: dict[str, Counter[str]] = {}
    for page in info.pages:
        heads = " ".join([page.title, *(heading.text for heading in page.headings)])
        for text, weight in ((page.text, 1), (heads, 4)):
            for word in _WORD.findall(text):
                plain = word.casefold()
                if plain not in STOP_WORDS:
                    counts[plain] += weight
                    spelled.setdefault(plain, Counter())[word] += 1
    return tuple(ResultItem(spelled[plain].most_common(1)[0][0]) for plain, _ in counts.most_common(MOST_KEYWORDS))


def _plain(url: str) -> str:
    return url.partition("#")[0].rstrip("/").casefold()
