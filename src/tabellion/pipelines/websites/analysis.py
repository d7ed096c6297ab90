"""Asks one model about a website, or applies the rules in its place, and locates every quote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabellion.models.base import Ask, Model
from tabellion.pipelines.websites.analysis_type import LEVELS, AnalysisField, AnalysisType
from tabellion.pipelines.websites.prompts import Prompt
from tabellion.pipelines.websites.quotes import QuoteFinder
from tabellion.pipelines.websites.result import AnalysisResult, ResultItem, keep_known
from tabellion.pipelines.websites.site.info import WebsiteInfo

LONGEST_TEXT = 2000  #: characters of one value


async def ask_model(
    model: Model, kind: AnalysisType, prompt: Prompt, info: WebsiteInfo, deadline: float
) -> tuple[AnalysisResult, float | None]:
    """The answer of a model with its cost; the prompt is sent as it was stored. Errors are those of models."""
    ask = Ask(system=prompt.system or None, max_tokens=prompt.answer, deadline=deadline)
    reply = await model.call([prompt.user], prompt.schema, ask)
    answer = reply.object if isinstance(reply.object, Mapping) else {}
    result = AnalysisResult(
        read_answer(kind, answer, info), answered_by=reply.model or model.model, seconds=reply.seconds,
        tokens={"input": reply.usage.input, "output": reply.usage.output}, from_memo=reply.source != "call",
    )  # fmt: skip
    return result, reply.cost


def read_answer(kind: AnalysisType, answer: Mapping[str, Any], info: WebsiteInfo) -> dict[str, tuple[ResultItem, ...]]:
    """The fields of an answer, each quote located on the website. What was not found there is ungrounded."""
    finder = QuoteFinder(info)
    fields = {}
    for spec in kind.fields:
        entry = answer.get(spec.name)
        entries = entry if isinstance(entry, list) else [entry]
        items = [_read_item(spec, one, finder) for one in entries if isinstance(one, Mapping)]
        fields[spec.name] = tuple(item for item in items if item is not None)
    return keep_known(kind, fields)


def _read_item(spec: AnalysisField, entry: Mapping[str, Any], finder: QuoteFinder) -> ResultItem | None:
    value = entry.get("title") if spec.kind == "findings" else entry.get("value")
    if isinstance(value, str):
        value = " ".join(value.split())[:LONGEST_TEXT]
    if value is None or value == "":
        return None
    quote = entry.get("quote")
    source = finder.locate(quote if isinstance(quote, str) else None)
    sources = (source,) if source is not None else ()
    if spec.kind != "findings":
        return ResultItem(value, sources)
    level = entry.get("level")
    detail, fix = (str(entry.get(key) or "")[:LONGEST_TEXT] for key in ("detail", "fix"))
    return ResultItem(value, sources, level if level in LEVELS else "info", detail, fix)
