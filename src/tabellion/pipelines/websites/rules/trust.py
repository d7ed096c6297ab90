"""Checks by rules whether a website says who is behind it, and looks for red flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

from tabellion.messages import Message
from tabellion.pipelines.websites.result import ResultItem, Source
from tabellion.pipelines.websites.rules.checks import Check, findings_of, score_of, summary_of
from tabellion.pipelines.websites.rules.passages import (
    links,
    quote_structured_data,
    search,
    search_everywhere,
    structured_objects,
    types_of,
)
from tabellion.pipelines.websites.rules.profile import ORGANISATIONS
from tabellion.pipelines.websites.site.info import WebsiteInfo
from tabellion.reading.types.identifiers import valid_siren, valid_siret, valid_vat

SOON = 21  #: days before its end at which a certificate should have been renewed
LEAST_WORDS = 40
#: Legal pages by their links, in English, French and German.
LEGAL = {
    "privacy": re.compile(r"privacy|confidentialit|vie privée|données personnelles|datenschutz", re.IGNORECASE),
    "terms": re.compile(
        r"\bterms\b|conditions (?:of|générales|d[’']utilisation)|\bcg[uv]\b|\bagb\b|nutzungsbedingungen", re.IGNORECASE
    ),
    "imprint": re.compile(r"imprint|legal (?:notice|information)|mentions légales|impressum", re.IGNORECASE),
    "cookies": re.compile(r"cookie", re.IGNORECASE),
    "returns": re.compile(r"refund|returns?\b|retours?\b|rembours|rétractation|widerruf", re.IGNORECASE),
}
#: By country: a loose pattern would take the next word for the end of the number, and call the number wrong.
_VAT = (
    r"(?:FR ?[0-9A-Z]{2}(?:[ .]?\d){9}|DE(?:[ .]?\d){9}|BE(?:[ .]?\d){10}|AT ?U(?:[ .]?\d){8}|IT(?:[ .]?\d){11}"
    r"|LU(?:[ .]?\d){8}|NL(?:[ .]?\d){9}[ .]?B ?\d\d|ES ?[0-9A-Z](?:[ .-]?\d){7}[ .-]?[0-9A-Z]"
    r"|GB(?:[ .]?\d){9}(?:[ .]?\d{3})?|IE ?\d[0-9A-Z+*]\d{5}[A-Z]{1,2})"
)
NUMBERS = {
    "SIRET": re.compile(r"\bsiret\W{0,12}(?P<number>\d(?:[ .]?\d){13})\b", re.IGNORECASE),
    "SIREN": re.compile(r"\b(?:siren|rcs|r\.c\.s\.)(?!\w)[^\d\n]{0,30}(?P<number>\d(?:[ .]?\d){8})\b", re.IGNORECASE),
    "VAT": re.compile(rf"\b(?:vat|tva|ust-?id(?:nr)?|btw)\b[^\n]{{0,40}}?\b(?P<number>{_VAT})\b", re.IGNORECASE),
    "NEQ": re.compile(r"\bneq\W{0,12}(?P<number>\d{10})\b", re.IGNORECASE),
    "company number": re.compile(
        r"\b(?:company (?:number|no\.?|registration(?: number)?)|registered (?:in [A-Z]\w+ )?(?:number|no\.?))"
        r"\W{0,12}(?P<number>[A-Z]{0,2}\d{6,10})\b",
        re.IGNORECASE,
    ),
    "HRB": re.compile(r"\b(?P<number>HR[AB]\s?\d{2,7})\b"),
}
_WORDS = r"[A-ZÀ-Þ][\w&’'.-]{0,40}(?: (?:[A-ZÀ-Þ&][\w&’'.-]{0,40})){0,4}"
#: A company by its legal form, which follows its name or, in French, often precedes it.
COMPANY = re.compile(
    rf"\b(?P<name>{_WORDS},? (?:Ltd\.?|Limited|Inc\.?|LLC|LLP|GmbH|AG|SASU?|SARL|EURL|SELARL|S\.A\.S?\.?|SA|ltée|inc\."
    rf"|PLC|B\.V\.|Oy|AB|ApS)(?!\w)|(?:SASU?|SARL|EURL|SELARL|SCOP) {_WORDS}(?<![.-]))"
)
VALID = {"SIRET": valid_siret, "SIREN": valid_siren, "VAT": valid_vat}
CERTIFICATES = re.compile(
    r"\b(ISO(?:/IEC)? ?\d{4,5}(?::\d{4})?|SOC ?[12](?: Type (?:I{1,2}|[12]))?|PCI[ -]DSS|HDS|Qualiopi|B Corp|FSC"
    r"|Fairtrade|EcoVadis|HIPAA|Cyber Essentials(?: Plus)?|TÜV|RGE|Ecocert)\b"
)
FLAGS = {
    "website_trust.flag_returns": re.compile(
        r"guaranteed (?:returns?|profits?|income)|risk[- ]free (?:investment|profit)|double your (?:money|bitcoin)"
        r"|rendements? garantis?|sans aucun risque|gains? garantis?",
        re.IGNORECASE,
    ),
    "website_trust.flag_urgency": re.compile(
        r"act now|only \d+ (?:left|spots)|offer ends (?:today|tonight|soon)|last chance|dépêchez-vous"
        r"|plus que \d+ (?:places|exemplaires)|dernière chance|offre expire",
        re.IGNORECASE,
    ),
    "website_trust.flag_payment": re.compile(
        r"pay (?:only )?(?:with|by|in) (?:bitcoin|crypto\w*|gift cards?|western union)"
        r"|payment by (?:gift card|wire only)"
        r"|paiement (?:par|en) (?:bitcoin|crypto\w*|cartes? cadeaux?)",
        re.IGNORECASE,
    ),
    "website_trust.flag_placeholder": re.compile(r"lorem ipsum|dolor sit amet", re.IGNORECASE),
    "website_trust.flag_unfinished": re.compile(
        r"under construction|coming soon|domain (?:is|may be) for sale|buy this domain|site en construction"
        r"|domaine (?:est )?à vendre",
        re.IGNORECASE,
    ),
}
#: These say that nobody has finished the site, not that somebody means to deceive.
UNFINISHED = ("website_trust.flag_placeholder", "website_trust.flag_unfinished")
FREE_MAIL = re.compile(r"@(gmail|yahoo|hotmail|outlook|live|aol|gmx|mail|proton(?:mail)?|orange|free|laposte)\.", re.I)
COPYRIGHT = re.compile(r"(?:©|\(c\)|copyright)\s*(?:\d{4}\s*[-–]\s*)?(?P<year>(?:19|20)\d\d)", re.IGNORECASE)


def check(info: WebsiteInfo) -> dict[str, tuple[ResultItem, ...]]:
    """The fields of the type `trust`."""
    legal, numbers, certificates = tuple(_legal_pages(info)), tuple(_numbers(info)), tuple(_certificates(info))
    operator = _operator(info)
    checks = [
        *_connection(info), *_legal(info, legal), *_contacts(info), *_identity(operator, numbers),
        *_extras(info, certificates), *_flags(info),
    ]  # fmt: skip
    score = score_of(checks)
    summary = summary_of(checks, score, "website_trust.summary_faults", "website_trust.summary_fine")
    return {
        "summary": (summary,), "score": (ResultItem(score),), "operator": operator, "registrations": numbers,
        "legal_pages": tuple(page for _, page in legal), "certificates": certificates, "findings": findings_of(checks),
    }  # fmt: skip


def _connection(info: WebsiteInfo) -> Iterator[Check]:
    if urlsplit(info.final_url).scheme != "https" or info.tls is None:
        if urlsplit(info.final_url).scheme != "https":
            yield Check("bad", Message("website_trust.https_missing"), Message("website_trust.https_why"),
                        Message("website_trust.https_fix"), (Source("address", info.final_url, info.final_url),),
                        weight=3)  # fmt: skip
        return
    tls = info.tls
    source = (Source("certificate", f"{tls.subject}, {tls.issuer}, {tls.valid_until[:10]}", info.final_url),)
    try:
        days = (datetime.fromisoformat(tls.valid_until.replace("Z", "+00:00")) - datetime.now(UTC)).days
    except (ValueError, TypeError):
        days = SOON
    if days < SOON:
        yield Check("warning", Message("website_trust.certificate_ends", n=days),
                    Message("website_trust.certificate_why"), sources=source, weight=2)  # fmt: skip
    else:
        yield Check("good", Message("website_trust.certificate_good", value=tls.issuer, day=tls.valid_until[:10]),
                    sources=source, weight=3)  # fmt: skip
    names = {name.lower() for name in info.headers}
    if "strict-transport-security" in names:
        yield Check("good", Message("website_trust.hsts_good"))
    else:
        yield Check("info", Message("website_trust.hsts_missing"), Message("website_trust.hsts_why"))


def _legal_pages(info: WebsiteInfo) -> Iterator[tuple[str, ResultItem]]:
    found = set()
    for link, source in links(info):
        for name, pattern in LEGAL.items():
            if name not in found and (pattern.search(link.text) or pattern.search(urlsplit(link.url).path)):
                found.add(name)
                yield name, ResultItem(link.text or link.url, (Source("link", source.quote, link.url),))


def _legal(info: WebsiteInfo, pages: tuple[tuple[str, ResultItem], ...]) -> Iterator[Check]:
    there = dict(pages)
    for name, weight in (("privacy", 2.0), ("imprint", 1.5), ("terms", 1.5)):
        if name in there:
            yield Check("good", Message(f"website_trust.{name}_good"), sources=there[name].sources, weight=weight)
        else:
            yield Check(
                "bad" if name == "privacy" else "warning", Message(f"website_trust.{name}_missing"),
                Message(f"website_trust.{name}_why"), Message(f"website_trust.{name}_fix"), weight=weight,
            )  # fmt: skip


def _contacts(info: WebsiteInfo) -> Iterator[Check]:
    contacts = info.contacts
    found = [contact for group in (contacts.emails, contacts.phones, contacts.addresses) for contact in group[:1]]
    sources = tuple(Source("contact", contact.value, contact.page) for contact in found)
    if len(found) >= 2:
        yield Check("good", Message("website_trust.contacts_good"), sources=sources, weight=2.5)
    elif found:
        yield Check("warning", Message("website_trust.contacts_few"), Message("website_trust.contacts_why"),
                    Message("website_trust.contacts_fix"), sources, weight=2.5)  # fmt: skip
    else:
        yield Check("bad", Message("website_trust.contacts_missing"), Message("website_trust.contacts_why"),
                    Message("website_trust.contacts_fix"), weight=2.5)  # fmt: skip
    free = [contact for contact in contacts.emails if FREE_MAIL.search(contact.value)]
    if free and len(free) == len(contacts.emails):
        yield Check("warning", Message("website_trust.free_mail"), Message("website_trust.free_mail_why"),
                    sources=(Source("contact", free[0].value, free[0].page),))  # fmt: skip


def _operator(info: WebsiteInfo) -> tuple[ResultItem, ...]:
    for thing in structured_objects(info):
        name = thing.get("legalName") or thing.get("name")
        if any(map(ORGANISATIONS.search, types_of(thing))) and isinstance(name, str):
            return (ResultItem(name, (quote_structured_data(info, name),)),)
    for match, source in search_everywhere(info, COMPANY):
        return (ResultItem(" ".join(match["name"].split()), (source,)),)
    return ()


def _identity(operator: tuple[ResultItem, ...], numbers: tuple[ResultItem, ...]) -> Iterator[Check]:
    if operator:
        yield Check("good", Message("website_trust.operator_good", value=operator[0].value),
                    sources=operator[0].sources, weight=2)  # fmt: skip
    else:
        yield Check("warning", Message("website_trust.operator_missing"), Message("website_trust.operator_why"),
                    Message("website_trust.operator_fix"), weight=2)  # fmt: skip
    wrong = [item for item in numbers if item.detail]
    if wrong:
        yield Check("bad", Message("website_trust.number_wrong", value=wrong[0].value),
                    Message("website_trust.number_wrong_why"), sources=wrong[0].sources, weight=2)  # fmt: skip
    elif numbers:
        yield Check("good", Message("website_trust.number_good", value=numbers[0].value),
                    sources=numbers[0].sources, weight=1.5)  # fmt: skip


def _numbers(info: WebsiteInfo) -> Iterator[ResultItem]:
    """Registration numbers; one whose check digits are wrong says so in its detail."""
    found = set()
    for name, pattern in NUMBERS.items():
        for match, source in search_everywhere(info, pattern):
            number = " ".join(match["number"].split())
            if (plain := re.sub(r"\W", "", number)) in found:
                continue
            found.add(plain)
            is_wrong = name in VALID and VALID[name](number) is False
            detail = Message("website_trust.number_wrong", value=f"{name} {number}") if is_wrong else ""
            yield ResultItem(f"{name} {number}", (source,), detail=detail)


def _certificates(info: WebsiteInfo) -> Iterator[ResultItem]:
    found = set()
    for match, source in search_everywhere(info, CERTIFICATES):
        name = " ".join(match[0].split())
        if name.casefold() not in found:
            found.add(name.casefold())
            yield ResultItem(name, (source,))


def _extras(info: WebsiteInfo, certificates: tuple[ResultItem, ...]) -> Iterator[Check]:
    if info.social:
        names = sorted({profile.network for profile in info.social})
        sources = tuple(Source("social", profile.url, profile.page) for profile in info.social[:3])
        yield Check("good", Message("website_trust.social_good", names=names), sources=sources)
    if certificates:
        claimed = Message("website_trust.certificates_claimed", names=[one.value for one in certificates[:5]])
        why = Message("website_trust.certificates_why")
        yield Check("info", claimed, why, sources=certificates[0].sources)
    years = [(int(match["year"]), source) for match, source in search_everywhere(info, COPYRIGHT)]
    if years:
        year, source = max(years, key=lambda one: one[0])
        if year < datetime.now(UTC).year - 2:
            yield Check("warning", Message("website_trust.copyright_old", value=str(year)),
                        Message("website_trust.copyright_why"), sources=(source,))  # fmt: skip


def _flags(info: WebsiteInfo) -> Iterator[Check]:
    """Red flags; each is shown with the passage."""
    flagged = False
    for code, pattern in FLAGS.items():
        for _, source in search(info, pattern):
            flagged = True
            if code in UNFINISHED:
                yield Check("warning", Message(code), Message("website_trust.unfinished_why"), sources=(source,))
            else:
                yield Check("bad", Message(code), Message("website_trust.flag_why"), sources=(source,), weight=3)
            break
    if urlsplit(info.url).hostname and info.redirects and _site(info.url) != _site(info.final_url):
        flagged = True
        yield Check("warning", Message("website_trust.other_site", value=urlsplit(info.final_url).hostname or ""),
                    Message("website_trust.other_site_why"),
                    sources=(Source("address", info.final_url, info.final_url),))  # fmt: skip
    if sum(len(page.text.split()) for page in info.pages) < LEAST_WORDS:
        yield Check("warning", Message("website_trust.text_short"), Message("website_trust.text_short_why"), weight=1.5)
    elif not flagged:
        yield Check("good", Message("website_trust.flags_none"), weight=2)


def _site(url: str) -> str:
    """The last two labels of a host: close enough to tell a redirect to `www` from one to another owner."""
    return ".".join((urlsplit(url).hostname or "").split(".")[-2:])
