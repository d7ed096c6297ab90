"""Writes a report as one HTML file that needs nothing else: styles and images are inside it."""

from __future__ import annotations

import base64
import functools
from typing import Any

from tabellion import __version__, extras, messages
from tabellion.engine.timestamps import iso
from tabellion.pipelines.websites.report import WebsiteReport
from tabellion.storage.blobs import BlobDamaged, Blobs

PACKAGE = "tabellion.pipelines.websites"
LARGEST_IMAGE = 6_000_000  #: bytes


def render_report(report: WebsiteReport, screenshot: str | None = None, favicon: str | None = None) -> str:
    """The HTML of a report; the images are data URLs."""
    return str(
        _environment().get_template("report.html").render(
            report=report, lang=report.language, t=functools.partial(messages.translate, report.language),
            style=_style(), screenshot=screenshot, favicon=favicon,
            version=__version__, **formatting(report.language),
        )
    )  # fmt: skip


async def load_image(blobs: Blobs, sha256: str | None, media: str) -> str | None:
    """A stored image as a data URL; None if there is none."""
    if not sha256:
        return None
    try:
        data = await blobs.load(sha256)
    except (OSError, BlobDamaged):
        return None
    return f"data:{media};base64,{base64.b64encode(data).decode()}" if 0 < len(data) <= LARGEST_IMAGE else None


def formatting(language: str) -> dict[str, Any]:
    """What templates use to write numbers, times and money."""

    def number(value: float, digits: int = 0) -> str:
        text = f"{value:,.{digits}f}"
        return text if language == "en" else text.replace(",", "\N{NO-BREAK SPACE}").replace(".", ",")

    def seconds(value: float | None) -> str:
        if value is None:
            return ""
        return f"{number(value * 1000)} ms" if value < 1 else f"{number(value, 1)} s"

    def money(value: float | None) -> str:
        return "" if value is None else f"${value:.4f}" if 0 < value < 0.1 else f"${value:.2f}"

    def moment(value: float | str | None) -> str:
        text = iso(value) if isinstance(value, int | float) else value
        return f"{text[:10]} {text[11:16]} UTC" if text else ""

    return {"number": number, "seconds": seconds, "money": money, "moment": moment}


@functools.cache
def _style() -> Any:
    """Our own styles as markup: the only part of the file that is not escaped."""
    return _environment().from_string('<style>{% include "report.css" %}</style>').module


@functools.cache
def _environment() -> Any:
    with extras.explain_missing("server"):
        import jinja2
    loader = jinja2.ChoiceLoader(
        [
            jinja2.PackageLoader(PACKAGE, "templates"),
            jinja2.PackageLoader(PACKAGE, "static"),
            jinja2.PackageLoader("tabellion.web", "templates"),
        ]
    )
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
