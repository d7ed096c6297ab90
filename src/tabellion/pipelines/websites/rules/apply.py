"""Applies the rules that an analysis type names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tabellion.pipelines.websites.analysis_type import AnalysisType
from tabellion.pipelines.websites.result import AnalysisResult, ResultItem, keep_known
from tabellion.pipelines.websites.rules import profile, seo, trust
from tabellion.pipelines.websites.site.info import WebsiteInfo

Rules = Callable[[WebsiteInfo], Mapping[str, tuple[ResultItem, ...]]]
RULES: dict[str, Rules] = {"profile": profile.describe, "seo": seo.review, "trust": trust.check}
LOCAL = "local"


def apply_rules(kind: AnalysisType, info: WebsiteInfo) -> AnalysisResult:
    """The answer of a type's rules; they say only what is on the website, and where."""
    if kind.rules is None:
        raise ValueError(f"the analysis type {kind.name} has no rules")
    return AnalysisResult(keep_known(kind, RULES[kind.rules](info)), answered_by=LOCAL)
