"""Builds the report of a website: everything that its page, its file and the comparison show, in one language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from tabellion.messages import DEFAULT, Message, restore_text, translate
from tabellion.pipelines.websites.analysis_type import AnalysisField, AnalysisType, Level
from tabellion.pipelines.websites.lookup import PhaseFacts, WebsiteDetail
from tabellion.pipelines.websites.result import AnalysisResult, ResultItem, Source
from tabellion.pipelines.websites.states import AnalysisStatus

HEADLINE = ("summary", "score")  #: fields with a place of their own
FRAGMENT_WORDS = 8  #: of a quote that a browser is asked to find
LONGEST_QUOTE = 240
GOOD, FAIR = 80, 50  #: scores from which a site is good or fair


@dataclass(frozen=True, slots=True)
class SourceView:
    """Where something came from, with a link to the very place."""

    kind: str
    quote: str
    page: str  #: the path of the page, for people
    href: str  #: empty if there is none that is safe
    grounded: bool


@dataclass(frozen=True, slots=True)
class ItemView:
    """One value, or one finding."""

    value: str
    sources: Sequence[SourceView] = ()
    level: Level | None = None
    detail: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field with its values."""

    name: str
    title: str
    items: Sequence[ItemView]
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class AnalysisView:
    """What one model said."""

    model: str
    answered_by: str
    status: str
    error: str = ""
    score: int | None = None
    grade: str = ""  #: good, fair or poor
    summary: ItemView | None = None
    facts: Sequence[FieldView] = ()
    findings: Sequence[FieldView] = ()
    counts: Mapping[str, int] = field(default_factory=dict)  #: findings by level
    quotes: int = 0
    grounded: int = 0
    cost: float | None = None
    seconds: float = 0.0
    tokens: int = 0
    from_memo: bool = False


@dataclass(frozen=True, slots=True)
class WebsiteReport:
    """The report."""

    id: str
    url: str
    host: str
    name: str  #: of the website, for its headline
    type: str
    type_title: str
    type_description: str
    status: str
    language: str
    analyses: Sequence[AnalysisView]
    info: Mapping[str, Any]
    phases: Sequence[PhaseFacts]
    issues: Sequence[str]
    created_at: str
    fetched_at: str
    cost: float | None
    seconds: float
    has_screenshot: bool
    has_favicon: bool


def build_report(website: WebsiteDetail, kind: AnalysisType | None, language: str = DEFAULT) -> WebsiteReport:
    """The report of a job; `kind` is None if its type does not exist any more."""
    info = website["info"] or {}
    final_url = str(info.get("final_url") or website["url"])
    issues = restore_text({"issues": [], **info}, "issues")
    return WebsiteReport(
        id=website["id"], url=final_url, host=urlsplit(final_url).netloc, type=website["type"],
        name=_name(website, info), type_title=kind.title(language) if kind else website["type"],
        type_description=kind.description(language) if kind else "", status=website["status"], language=language,
        analyses=[_analysis(one, kind, language) for one in website["analyses"]], info=info,
        phases=website["phases"], issues=[translate_text(issue, language) for issue in issues],
        created_at=website["created_at"] or "", fetched_at=str(info.get("fetched_at") or ""), cost=website["cost"],
        seconds=sum(phase["seconds"] or 0.0 for phase in website["phases"]),
        has_screenshot=website["has_screenshot"], has_favicon=website["has_favicon"],
    )  # fmt: skip


def translate_text(text: Any, language: str) -> str:
    """A text in the report's language, if it is a message; anything else as it is."""
    if isinstance(text, Message):
        return translate(language, text.code, **text.params)
    return str(text)


def _name(website: WebsiteDetail, info: Mapping[str, Any]) -> str:
    for analysis in website["analyses"]:
        fields = (analysis["result"] or {}).get("fields", {})
        for name in ("name", "operator"):
            if fields.get(name):
                return str(fields[name][0]["value"])
    return str(info.get("site_name") or website["title"] or urlsplit(website["url"]).netloc)


def _analysis(one: Mapping[str, Any], kind: AnalysisType | None, language: str) -> AnalysisView:
    if one["result"] is None:
        return AnalysisView(one["model"], one["model"], one["status"], one["error"] or "")
    result = AnalysisResult.from_dict(one["result"])
    specs = kind.fields if kind else tuple(AnalysisField(name, "texts") for name in result.fields)
    views = [
        FieldView(spec.name, spec.title(language), [_item(item, spec, language) for item in items], spec.is_list)
        for spec in specs
        if (items := result.fields.get(spec.name))
    ]
    score = result.first("score")
    whole = round(score) if isinstance(score, int | float) and not isinstance(score, bool) else None
    levels = [item.level for items in result.fields.values() for item in items if item.level is not None]
    quotes, grounded = result.count_quotes()
    kinds = {spec.name: spec.kind for spec in specs}
    return AnalysisView(
        one["model"], result.answered_by or one["model"], AnalysisStatus.COMPLETED, score=whole, grade=grade_of(whole),
        summary=next((view.items[0] for view in views if view.name == "summary"), None),
        facts=[view for view in views if view.name not in HEADLINE and kinds[view.name] != "findings"],
        findings=[view for view in views if kinds[view.name] == "findings"],
        counts={level: levels.count(level) for level in ("bad", "warning", "info", "good")},
        quotes=quotes, grounded=grounded, cost=one["cost"], seconds=result.seconds,
        tokens=sum(result.tokens.values()), from_memo=result.from_memo,
    )  # fmt: skip


def grade_of(score: float | None) -> str:
    """The colour of a score."""
    return "" if score is None else "good" if score >= GOOD else "fair" if score >= FAIR else "poor"


def _item(item: ResultItem, spec: AnalysisField, language: str) -> ItemView:
    value = spec.option_title(item.value, language) if spec.kind == "choice" else translate_text(item.value, language)
    if item.level is not None:
        value = value[:1].upper() + value[1:]
    return ItemView(
        value, [view_source(source) for source in item.sources], item.level, translate_text(item.detail, language),
        translate_text(item.fix, language),
    )  # fmt: skip


def view_source(source: Source) -> SourceView:
    """A source for people: its link leads to the passage, in browsers that support text fragments."""
    text = source.quote if len(source.quote) <= LONGEST_QUOTE else f"{source.quote[: LONGEST_QUOTE - 1]}…"
    parts = urlsplit(source.page)
    if parts.scheme not in ("http", "https"):
        return SourceView(source.kind, text, "", "", source.is_grounded)
    href = source.page.partition("#")[0]
    if source.kind in ("text", "text_around", "heading"):
        words = " ".join(source.quote.split()[:FRAGMENT_WORDS])
        href += f"#:~:text={quote(words, safe='')}"
    path = parts.path if parts.path not in ("", "/") else parts.netloc
    return SourceView(source.kind, text, path, href, source.is_grounded)
