"""Technologies: each rule of the table can match, and what matched is the evidence."""

from __future__ import annotations

import re

import pytest

from tabellion.pipelines.websites.site.html_tree import parse_html
from tabellion.pipelines.websites.site.technologies import TechnologyRule, find_technologies, load_rules

EMPTY = parse_html("")


def found(
    html: str = "", headers: dict[str, str] | None = None, cookies: list[str] | None = None, generator: str = ""
) -> dict[str, tuple[str, str, str]]:
    technologies = find_technologies(
        parse_html(html), "https://shop.example/", list((headers or {}).items()), cookies or [], generator
    )
    return {one["name"]: (one["version"], one["kind"], one["evidence"]) for one in technologies}


def test_the_table_is_sound() -> None:
    """Each name once, each rule with a sign, header names in lower case."""
    rules = load_rules()
    names = [rule.name for rule in rules]
    assert len(names) == len(set(names))
    for rule in rules:
        assert rule.headers or rule.cookies or rule.generator or rule.scripts or rule.markup, rule.name
        assert all(name == name.lower() for name in rule.headers), rule.name
        assert rule.category == rule.category.lower(), rule.name


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.name)
def test_an_empty_page_uses_nothing(rule: TechnologyRule) -> None:
    """No sign matches everything, except headers whose presence is the sign."""
    for pattern in (*rule.cookies, *rule.generator, *rule.scripts):
        assert not pattern.search("")
        assert not pattern.search("https://shop.example/")
    assert not any(path(EMPTY) for path in rule.markup)


def test_every_kind_of_sign_is_evidence() -> None:
    """Header, cookie, generator, script and markup."""
    assert found(headers={"Server": "nginx/1.25.3"}) == {"nginx": ("1.25.3", "header", "server: nginx/1.25.3")}
    assert found(cookies=["PHPSESSID"]) == {"PHP": ("", "cookie", "PHPSESSID")}
    assert found(generator="Hugo 0.120.4") == {"Hugo": ("0.120.4", "meta", "generator: Hugo 0.120.4")}
    script = '<script src="/js/jquery-3.7.1.min.js"></script>'
    assert found(script) == {"jQuery": ("3.7.1", "script", "https://shop.example/js/jquery-3.7.1.min.js")}
    assert found('<app-root ng-version="17.0.1"></app-root>')["Angular"][1:] == (
        "markup",
        '<app-root ng-version="17.0.1">',
    )


def test_the_sign_with_a_version_wins() -> None:
    """A cookie says PHP, a header says which."""
    assert found(headers={"x-powered-by": "PHP/8.3.1"}, cookies=["PHPSESSID"])["PHP"][:2] == ("8.3.1", "header")


def test_long_values_are_searched_in_part_and_evidence_is_short() -> None:
    """A header of a megabyte costs nothing."""
    technologies = found(headers={"server": "nginx/" + "1" * 1_000_000})
    assert len(technologies["nginx"][2]) <= 200
    assert re.fullmatch(r"1+", technologies["nginx"][0])
