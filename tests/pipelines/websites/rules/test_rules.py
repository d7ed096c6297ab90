"""Rules that answer in place of a model: useful, never invented, and in every language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tabellion.messages import Message, translate
from tabellion.pipelines.websites.analysis_type_file import load
from tabellion.pipelines.websites.result import AnalysisResult, ResultItem
from tabellion.pipelines.websites.rules.apply import RULES, apply_rules
from tabellion.pipelines.websites.site.info import Contacts, Links, PageInfo, PageLink, Robots, Tls, WebsiteInfo
from tests.pipelines.websites.sites import website

EMPTY = WebsiteInfo("http://empty.example/", "http://empty.example/", "2026-11-01T10:00:00.000Z")


def values(fields: Mapping[str, tuple[ResultItem, ...]], name: str) -> list[Any]:
    return [item.value for item in fields.get(name, ())]


def levels(result: AnalysisResult) -> dict[str, str | None]:
    return {item.value.code.partition(".")[2]: item.level for item in result.fields["findings"]}


def page(text: str) -> WebsiteInfo:
    one = PageInfo("https://a.example/", "home", text=text)
    return website("https://a.example/", pages=(one,), text=text)


def test_a_profile_says_what_the_website_says() -> None:
    """Name, summary, offer, audience, year; each with the place where it was read."""
    fields = apply_rules(load("profile"), website()).fields
    assert values(fields, "name") == ["Birch & Co."]
    assert values(fields, "summary") == [website().description]
    assert values(fields, "offer") == ["Trains", "Puzzles"]
    assert values(fields, "audience") == ["families and schools"]
    assert values(fields, "founded") == ["1987"]
    assert all(item.sources for name, items in fields.items() for item in items if name != "tone")


def test_a_profile_prefers_structured_data() -> None:
    """What the site states for machines is not guessed from its text."""
    company = {
        "@type": "LocalBusiness", "name": "Birch Toys", "foundingDate": "1986-05-01", "description": "Toys.",
        "address": {"streetAddress": "1 rue du Bois", "addressLocality": "Lyon"},
        "makesOffer": [{"@type": "Offer", "name": "Rocking horse"}],
    }  # fmt: skip
    fields = apply_rules(load("profile"), website(json_ld=({"@graph": [company]},))).fields
    assert values(fields, "name") == ["Birch Toys"]
    assert values(fields, "founded") == ["1986"]
    assert values(fields, "location") == ["1 rue du Bois, Lyon"]
    assert "Rocking horse" in values(fields, "offer")
    assert fields["name"][0].sources[0].kind == "structured"


@pytest.mark.parametrize(
    ("text", "tone"),
    [
        ("Hello and welcome! We love toys and we're happy to help. Let's play. " * 3, "friendly"),
        ("The API has an SDK, and the protocol of the database engine is open source. " * 3, "technical"),
        ("The shop is in Lyon. It has three rooms. " * 5, "neutral"),
    ],
)
def test_the_tone_is_judged_by_words(text: str, tone: str) -> None:
    """A site without marks of any tone is neutral."""
    assert values(apply_rules(load("profile"), page(text)).fields, "tone") == [tone]


def test_a_site_without_text_has_no_tone() -> None:
    """Nothing is said about what was not there."""
    assert "tone" not in apply_rules(load("profile"), EMPTY).fields


def test_an_audience_ends_with_a_noun() -> None:
    """French puts an article before each of them."""
    text = "Nous accompagnons les entreprises et les particuliers en droit des affaires."
    assert "entreprises et les particuliers" in values(apply_rules(load("profile"), page(text)).fields, "audience")


def test_seo_finds_what_is_good_and_what_is_missing() -> None:
    """A better site has a better score, and what is missing is said with a fix."""
    poor, usual = apply_rules(load("seo"), EMPTY), apply_rules(load("seo"), website())
    tls = Tls("TLSv1.3", "birch.example", "Example CA", "2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z")
    rich = apply_rules(load("seo"), website(
        canonical="https://birch.example", json_ld=({"@type": "Organization"},), tls=tls, text="word " * 300,
        description="Wooden toys, trains and puzzles, made by hand in Lyon for families and schools since 1987.",
        open_graph={"og:title": "a", "og:description": "b", "og:image": "c"},
        robots=Robots(exists=True, sitemaps=("https://birch.example/sitemap.xml",)),
    ))  # fmt: skip
    assert poor.first("score") < usual.first("score") < rich.first("score") == 100
    assert levels(poor)["title_missing"] == levels(poor)["https_missing"] == "bad"
    assert levels(rich)["sitemap_good"] == "good"
    assert all(item.fix for item in poor.fields["findings"] if item.level == "bad")
    assert "toys" in [word.casefold() for word in values(usual.fields, "keywords")]


@pytest.mark.parametrize(
    ("title", "found"),
    [
        ("", "title_missing"),
        ("Home", "title_length"),
        ("Wooden toys, trains and puzzles for families and schools, since 1987 | Birch", "title_length"),
        ("Wooden toys made by hand | Birch", "title_good"),
    ],
)
def test_the_title_is_judged_as_search_engines_see_it(title: str, found: str) -> None:
    """By the text of <title>, also if Open Graph states another title."""
    result = levels(apply_rules(load("seo"), website(title="Wooden toys by Birch", page_title=title)))
    assert [code for code in result if code.startswith("title_")] == [found]


def test_pages_with_the_same_title_are_a_warning() -> None:
    """The titles are compared with the name of the site: each page has its URL as a source."""
    same = tuple(PageInfo(f"https://a.example/{name}", "link", title=name, page_title="Birch") for name in "ab")
    result = apply_rules(load("seo"), website(pages=same))
    [repeated] = [item for item in result.fields["findings"] if item.value.code == "website_seo.titles_repeated"]
    assert (repeated.level, [source.page for source in repeated.sources]) == ("warning", [page.url for page in same])


def test_a_site_that_must_not_be_listed_is_a_serious_fault() -> None:
    """With the header as its source."""
    result = apply_rules(load("seo"), website(headers={"X-Robots-Tag": "noindex, nofollow"}))
    [fault] = [item for item in result.fields["findings"] if item.value.code == "website_seo.noindex"]
    assert fault.sources[0].quote == "X-Robots-Tag: noindex, nofollow"


@pytest.mark.parametrize(("stated", "is_fault"), [("NOINDEX,follow", True), ("none", True), ("index, follow", False)])
def test_a_home_page_that_forbids_its_listing_is_a_serious_fault(stated: str, is_fault: bool) -> None:
    """By its robots meta tag, as by the header."""
    home = PageInfo("https://a.example/", "home", robots_meta=stated)
    result = apply_rules(load("seo"), website("https://a.example/", pages=(home,)))
    faults = [item for item in result.fields["findings"] if item.value.code == "website_seo.noindex"]
    assert [fault.sources[0].quote for fault in faults] == ([stated] if is_fault else [])


def test_a_broken_link_is_no_legal_page() -> None:
    """A link to a privacy policy that answers 404 does not count."""
    link = PageLink("https://a.example/privacy", "Privacy policy")
    missing = Message("visit.page_missing", url=link.url, status=404)
    whole = website("https://a.example/", links=Links(1, 0, (link,), ()))
    assert "privacy_good" in levels(apply_rules(load("trust"), whole))
    broken = replace(whole, issues=(missing,))
    assert "privacy_missing" in levels(apply_rules(load("trust"), broken))


def test_trust_reads_footers() -> None:
    """Operator and numbers that are only outside the main text are found, and their source says where."""
    footer = (
        "© 2026 Birch & Wick SARL, 12 rue de la République, 69002 Lyon\nSIRET : 732 829 320 00074 – TVA FR44732829320"
    )
    home = PageInfo("https://a.example/", "home", text="We pour candles. " * 20, text_around=footer)
    fields = apply_rules(load("trust"), website("https://a.example/", pages=(home,))).fields
    assert values(fields, "operator") == ["Birch & Wick SARL"]
    assert values(fields, "registrations") == ["SIRET 732 829 320 00074", "VAT FR44732829320"]
    assert {item.sources[0].kind for name in ("operator", "registrations") for item in fields[name]} == {"text_around"}
    assert fields["registrations"][0].sources[0].page == "https://a.example/"
    assert not any(item.detail for item in fields["registrations"])


def test_red_flags_are_not_read_from_menus() -> None:
    """A menu that says "Coming soon" does not make a site unfinished."""
    home = PageInfo("https://a.example/", "home", text="We pour candles. " * 20, text_around="Shop (coming soon)")
    assert levels(apply_rules(load("trust"), website(pages=(home,))))["flags_none"] == "good"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELARL Delorme & Associés – 4 place Royale", "SELARL Delorme & Associés"),
        ("© Éditions Dupuis SAS", "Éditions Dupuis SAS"),
        ("Operated by Birch Toys Ltd.", "Birch Toys Ltd."),
    ],
)
def test_companies_are_recognized_by_their_legal_form(text: str, name: str) -> None:
    """Before the name or after it."""
    assert values(apply_rules(load("trust"), page(text)).fields, "operator") == [name]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Our VAT number GB 980 7806 84 is on every invoice.", "GB 980 7806 84"),
        ("N° TVA : FR 44 732 829 320 a été vérifié.", "FR 44 732 829 320"),
        ("TVA BE 0403.170.701", "BE 0403.170.701"),
    ],
)
def test_a_vat_number_ends_where_it_ends(text: str, number: str) -> None:
    """The words after it are not part of it: the check digits would be called wrong."""
    [item] = apply_rules(load("trust"), page(text)).fields["registrations"]
    assert (item.value, item.detail) == (f"VAT {number}", "")


def test_trust_names_who_is_behind_a_site() -> None:
    """Operator, numbers, certificates and legal pages, each with its source."""
    result = apply_rules(load("trust"), website())
    assert values(result.fields, "operator") == ["Birch & Co. Ltd"]
    assert values(result.fields, "registrations") == ["company number 01234567"]
    assert values(result.fields, "certificates") == ["ISO 9001"]
    assert values(result.fields, "legal_pages") == ["Privacy policy"]
    found = levels(result)
    assert (found["privacy_good"], found["imprint_missing"], found["contacts_good"]) == ("good", "warning", "good")
    assert found["flags_none"] == "good"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Guaranteed returns of 20 % a month. ", "flag_returns"),
        ("Act now, offer ends tonight. ", "flag_urgency"),
        ("Please pay only with gift cards. ", "flag_payment"),
        ("Lorem ipsum dolor sit amet. ", "flag_placeholder"),
        ("This domain is for sale. ", "flag_unfinished"),
    ],
)
def test_red_flags_are_shown_with_their_passage(text: str, code: str) -> None:
    """So that a person can judge; an unfinished site is a warning only."""
    result = apply_rules(load("trust"), page(text + "Plain words follow here. " * 40))
    [flag] = [item for item in result.fields["findings"] if item.value.code == f"website_trust.{code}"]
    assert flag.level == ("warning" if code in ("flag_placeholder", "flag_unfinished") else "bad")
    assert flag.sources[0].page == "https://a.example/"
    assert text.split(".")[0][:12] in flag.sources[0].quote
    assert "flags_none" not in levels(result)


def test_a_number_with_wrong_check_digits_is_a_red_flag() -> None:
    """A SIRET that cannot exist; a correct one speaks for the site."""
    wrong = apply_rules(load("trust"), page("SIRET : 552 100 554 00014. " + "Texte. " * 80))
    right = apply_rules(load("trust"), page("SIRET : 552 100 554 00013. " + "Texte. " * 80))
    assert levels(wrong)["number_wrong"] == "bad"
    assert "number_wrong" not in levels(right)


@pytest.mark.parametrize("name", list(RULES))
@pytest.mark.parametrize("info", [EMPTY, website(), website(contacts=Contacts(), links=Links(), pages=())])
def test_every_finding_can_be_translated_and_stored(name: str, info: WebsiteInfo) -> None:
    """Texts of our own are messages in both languages; a result survives storing; no rule fails on an empty site."""
    result = apply_rules(load(name), info)
    again = AnalysisResult.from_dict(result.as_dict())
    assert again.as_dict() == result.as_dict()
    for item in again.fields.get("findings", ()):
        assert isinstance(item.value, Message)
        assert translate("fr", item.value.code, **item.value.params) != str(item.value)
