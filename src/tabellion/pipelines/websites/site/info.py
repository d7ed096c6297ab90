"""What a visit found: the site, its pages, and where each contact and technology was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

from tabellion.messages import restore_text, translatable

Origin = Literal["home", "sitemap", "link"]
EvidenceKind = Literal["header", "cookie", "meta", "script", "link", "markup"]
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a page."""

    level: int  #: 1 to 6
    text: str


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link of the home page."""

    url: str
    text: str


@dataclass(frozen=True, slots=True)
class Links:
    """The links of the home page: how many distinct ones there are, and the first of each kind."""

    internal_count: int = 0
    external_count: int = 0
    internal: tuple[PageLink, ...] = ()
    external: tuple[PageLink, ...] = ()


@dataclass(frozen=True, slots=True)
class Contact:
    """An e-mail address, telephone number or postal address, and the URL of the page it was seen on."""

    value: str
    page: str


@dataclass(frozen=True, slots=True)
class Contacts:
    """How the site can be contacted."""

    emails: tuple[Contact, ...] = ()
    phones: tuple[Contact, ...] = ()  #: in international form where the country is known
    addresses: tuple[Contact, ...] = ()


@dataclass(frozen=True, slots=True)
class SocialProfile:
    """A profile of the site's owner on a social network."""

    network: str
    url: str
    page: str


@dataclass(frozen=True, slots=True)
class Technology:
    """A technology that the site uses, and what gave it away."""

    name: str
    category: str
    version: str  #: empty if the site does not say
    kind: EvidenceKind
    evidence: str  #: what was seen: the header, the name of the cookie, the URL of the script …
    page: str


@dataclass(frozen=True, slots=True)
class Robots:
    """What the site's robots.txt says."""

    exists: bool = False
    allowed: bool = True  #: whether this program may read the home page
    respected: bool = True  #: False if the settings of the visit ignore it
    crawl_delay: float | None = None  #: seconds
    sitemaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tls:
    """The encrypted connection to the site, and its certificate."""

    version: str
    subject: str
    issuer: str
    valid_from: str  #: ISO 8601, in UTC
    valid_until: str
    names: tuple[str, ...] = ()  #: the first hosts that the certificate is for


@dataclass(frozen=True, slots=True)
class PageInfo:
    """One page of the site."""

    url: str  #: after redirects
    found: Origin  #: how the visit found it
    status: int = 200
    rendered: bool = False  #: whether its text comes from a browser
    title: str = ""
    page_title: str = ""  #: as in `<title>`, with the name of the site; empty if there is none
    robots_meta: str = ""  #: as in `<meta name="robots">`
    description: str = ""
    language: str = ""  #: as in HTML: `en`, `fr-CA`
    byline: str = ""
    site_name: str = ""
    published: str = ""  #: ISO 8601 date
    canonical: str = ""
    headings: tuple[Heading, ...] = ()
    text: str = ""  #: the main text, without navigation
    text_around: str = ""  #: what is visible beside it, such as the footer; at most 5,000 characters

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PageInfo:
        """Restores a page from JSON."""
        return cls(**{**_select_known(cls, data), "headings": _records(Heading, data.get("headings"))})


@dataclass(frozen=True, slots=True)
class WebsiteInfo:
    """What one visit found. `title`, `text` and the like are those of the home page."""

    url: str  #: as requested
    final_url: str
    fetched_at: str  #: ISO 8601, in UTC
    status: int = 200
    redirects: tuple[str, ...] = ()  #: the URLs on the way, without the final one
    rendered: bool = False  #: whether the home page was read in a browser
    render_reason: str = ""  #: why it was, or why it was not although it needed to be: a Message
    title: str = ""
    description: str = ""
    language: str = ""
    canonical: str = ""
    site_name: str = ""
    open_graph: dict[str, str] = field(default_factory=dict)
    json_ld: tuple[dict[str, Any], ...] = ()
    headings: tuple[Heading, ...] = ()
    text: str = ""
    links: Links = Links()
    contacts: Contacts = Contacts()
    social: tuple[SocialProfile, ...] = ()
    technologies: tuple[Technology, ...] = ()
    pages: tuple[PageInfo, ...] = ()  #: the home page first
    robots: Robots = Robots()
    headers: dict[str, str] = field(default_factory=dict)  #: of interest: server, security, caching
    tls: Tls | None = None  #: None over plain HTTP
    timings: dict[str, float] = field(default_factory=dict)  #: seconds by step
    issues: tuple[str, ...] = ()  #: Messages: what was wrong with the site or left out
    screenshot: str = ""  #: name of a JPEG file in the folder of the visit; empty if there is none
    page_title: str = ""  #: as in `<title>`; `title` may come from Open Graph, and lacks the name of the site
    favicon: str = ""  #: name of a PNG file in the folder of the visit; empty if there is none

    def as_dict(self) -> dict[str, Any]:
        """The information as JSON."""
        messages = translatable(render_reason=self.render_reason, issues=list(self.issues))
        return {**asdict(self), "issues": list(self.issues), **messages}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WebsiteInfo:
        """Restores the result of `as_dict`, also after a way through JSON."""
        contacts = data.get("contacts") or {}
        links = data.get("links") or {}
        restored = {
            "redirects": tuple(data.get("redirects") or ()),
            "render_reason": restore_text({"render_reason": "", **data}, "render_reason"),
            "json_ld": tuple(data.get("json_ld") or ()),
            "headings": _records(Heading, data.get("headings")),
            "links": Links(
                **{
                    **_select_known(Links, links),
                    "internal": _records(PageLink, links.get("internal")),
                    "external": _records(PageLink, links.get("external")),
                }
            ),
            "contacts": Contacts(
                **{name: _records(Contact, contacts.get(name)) for name in ("emails", "phones", "addresses")}
            ),
            "social": _records(SocialProfile, data.get("social")),
            "technologies": _records(Technology, data.get("technologies")),
            "pages": tuple(PageInfo.from_dict(page) for page in data.get("pages") or ()),
            "robots": _record(Robots, data.get("robots") or {}),
            "tls": _record(Tls, data["tls"]) if data.get("tls") else None,
            "issues": tuple(restore_text({**data, "issues": list(data.get("issues") or ())}, "issues")),
        }
        return cls(**{**_select_known(cls, data), **restored})


def _select_known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that this version knows: stored data may come from another one."""
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in data.items() if name in names}


def _record(kind: type[_Record], data: Mapping[str, Any]) -> _Record:
    known = {
        name: tuple(value) if isinstance(value, list) else value for name, value in _select_known(kind, data).items()
    }
    return kind(**known)


def _records(kind: type[_Record], items: Any) -> tuple[_Record, ...]:
    return tuple(_record(kind, item) for item in items or ())
