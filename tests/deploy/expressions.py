"""The queries of dashboards and alerts, and which metrics and labels they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

from tabellion.monitor.metrics import database_metrics, worker_metrics
from tabellion.monitor.metrics.metric import Metric
from tests.deploy.prometheus_server import ROOT

DEPLOY = ROOT / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
RULES = sorted((DEPLOY / "prometheus").glob("alerts*.yml"))
#: What Grafana replaces before it asks.
VARIABLES = {"$__rate_interval": "30s", "$environment": ".*", "$queue": ".*"}
FROM_PROMETHEUS = {"job", "instance"}  #: labels that Prometheus adds to every series
#: Metrics of Prometheus itself, and of every program that uses its client.
STANDARD = ("up", "process_resident_memory_bytes")


@dataclass(frozen=True)
class Query:
    """One query: where it is, and its PromQL."""

    where: str
    text: str
    legend: str = ""

    def __str__(self) -> str:
        return self.where


def panel_queries(path: Path) -> list[Query]:
    """The queries of a dashboard's panels, with variables replaced."""
    board = json.loads(path.read_text())
    return [
        Query(f"{path.stem}: {panel['title']} {target['refId']}", _substitute(target["expr"]), target["legendFormat"])
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]


def variable_queries(path: Path) -> list[tuple[str, str]]:
    """The metric and the label of each variable of a dashboard."""
    found = []
    for variable in json.loads(path.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert match, variable["query"]
            found.append((_substitute(match[1]), match[2]))
    return found


def rule_queries(path: Path) -> list[Query]:
    """The queries of a file of alerts."""
    return [
        Query(f"{path.stem}: {rule['alert']}", rule["expr"], " ".join(rule["annotations"].values()))
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]


def _substitute(text: str) -> str:
    for variable, value in VARIABLES.items():
        text = text.replace(variable, value)
    assert "$" not in text, text
    return text


def exported(pipelines: Any) -> dict[str, Metric]:
    """Every metric that an installation with these pipelines exports, by name."""
    from tabellion.config import Config

    sources = [source for pipeline in pipelines if (source := pipeline.metrics(Config())) is not None]
    metrics = [
        *worker_metrics.METRICS,
        *database_metrics.METRICS,
        *(one for source in sources for one in source.metrics),
    ]
    return {metric.name: metric for metric in metrics}


def nodes(expression: Any) -> Iterator[Any]:
    """An expression and all its parts."""
    yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        part = getattr(expression, name, None)
        if part is not None and not isinstance(part, str):
            yield from nodes(part)
    for part in getattr(expression, "args", None) or ():
        yield from nodes(part)


def selectors(text: str) -> list[tuple[str, set[str]]]:
    """The metrics that a query selects, each with the labels of its matchers."""
    parsed = promql_parser.parse(text)
    return [
        (node.name or "", {matcher.name for matcher in node.matchers.matchers})
        for node in nodes(parsed)
        if isinstance(node, promql_parser.VectorSelector)
    ]


def grouped(text: str) -> set[str]:
    """The labels that a query groups or joins by."""
    found: set[str] = set()
    for labels in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", text):
        found |= {label.strip() for label in labels.split(",")}
    return found
