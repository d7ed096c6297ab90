"""Compares two jobs: two websites, or two runs of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from tabellion.answers import Answer, Doc
from tabellion.pipelines.websites.lookup import WebsiteDetail
from tabellion.pipelines.websites.report import AnalysisView, WebsiteReport

#: Facts of a visit that are compared, in this order.
FACTS = ("title", "description", "language", "canonical", "status", "words", "pages", "internal_links",
         "external_links", "technologies", "emails", "phones", "certificate")  # fmt: skip


class ComparedSide(Answer):
    """One of the two jobs."""

    id: str
    url: str
    name: str
    type: str
    fetched_at: str
    score: int | None
    summary: str
    model: str


class ComparedValue(Answer):
    """A fact or a field in both."""

    name: str
    title: str
    a: list[str]
    b: list[str]
    same: bool


class ComparedFinding(Answer):
    """A finding, and which of the two has it."""

    title: str
    level: str
    detail: str
    a: bool
    b: bool


class Comparison(Answer):
    """Two jobs side by side."""

    a: ComparedSide
    b: ComparedSide
    same_site: Annotated[bool, Doc("Whether these are two runs of one website.")]
    same_type: bool
    score_change: Annotated[int | None, Doc("The score of b minus that of a.")]
    facts: list[ComparedValue]
    fields: list[ComparedValue]
    findings: list[ComparedFinding]


def compare(first: WebsiteDetail, second: WebsiteDetail, reports: tuple[WebsiteReport, WebsiteReport]) -> Comparison:
    """What differs and what does not; findings are matched by their text, as rules and careful models repeat it."""
    views = [report.analyses[0] if report.analyses else None for report in reports]
    sides = [_side(job, report, view) for job, report, view in zip((first, second), reports, views, strict=True)]
    scores = [side["score"] for side in sides]
    change = scores[1] - scores[0] if scores[0] is not None and scores[1] is not None else None
    return Comparison(
        a=sides[0], b=sides[1], same_site=first["normalized_url"] == second["normalized_url"],
        same_type=first["type"] == second["type"], score_change=change,
        facts=_compare_values([_facts(report.info) for report in reports], {name: name for name in FACTS}),
        fields=_compare_fields(views), findings=_compare_findings(views),
    )  # fmt: skip


def _side(job: WebsiteDetail, report: WebsiteReport, view: AnalysisView | None) -> ComparedSide:
    return ComparedSide(
        id=job["id"], url=report.url, name=report.name, type=job["type"], fetched_at=report.fetched_at,
        score=view.score if view else None, summary=view.summary.value if view and view.summary else "",
        model=view.model if view else "",
    )  # fmt: skip


def _facts(info: Mapping[str, Any]) -> dict[str, list[str]]:
    if not info:
        return {}
    contacts, links, tls = info.get("contacts") or {}, info.get("links") or {}, info.get("tls") or {}
    found: dict[str, Any] = {
        name: info.get(name) for name in ("title", "description", "language", "canonical", "status")
    }
    found |= {
        "words": info.get("words"), "pages": len(info.get("pages") or ()), "internal_links": links.get("internal"),
        "external_links": links.get("external"), "certificate": tls.get("issuer"),
        "technologies": sorted(one["name"] for one in info.get("technologies") or ()),
        "emails": sorted(one["value"] for one in contacts.get("emails") or ()),
        "phones": sorted(one["value"] for one in contacts.get("phones") or ()),
    }  # fmt: skip
    return {name: _texts(value) for name, value in found.items()}


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(one) for one in value]
    return [] if value in (None, "") else [str(value)]


def _compare_fields(views: Sequence[AnalysisView | None]) -> list[ComparedValue]:
    titles = {field.name: field.title for view in views if view for field in view.facts}
    values = [
        {field.name: [item.value for item in field.items] for field in view.facts} if view else {} for view in views
    ]
    return _compare_values(values, titles)


def _compare_values(values: Sequence[Mapping[str, list[str]]], titles: Mapping[str, str]) -> list[ComparedValue]:
    compared = []
    for name, title in titles.items():
        a, b = (side.get(name, []) for side in values)
        if a or b:
            compared.append(ComparedValue(name=name, title=title, a=a, b=b, same=a == b))
    return compared


def _compare_findings(views: Sequence[AnalysisView | None]) -> list[ComparedFinding]:
    found: dict[str, ComparedFinding] = {}
    for place, view in enumerate(views):
        for item in (item for field in view.findings for item in field.items) if view else ():
            entry = found.setdefault(
                item.value,
                ComparedFinding(title=item.value, level=item.level or "info", detail=item.detail, a=False, b=False),
            )
            entry["a" if place == 0 else "b"] = True
    order = ("bad", "warning", "info", "good")
    return sorted(found.values(), key=lambda one: (one["a"] and one["b"], order.index(one["level"])))
