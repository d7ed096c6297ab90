"""`tabellion ground`: where do these values stand on the page?"""

from __future__ import annotations

from json import JSONDecodeError, loads
from pathlib import Path
from typing import Annotated, Any

import typer

from tabellion.cli import output
from tabellion.errors import Permanent
from tabellion.reading.errors import Unreadable
from tabellion.reading.grounding.ground import UNGROUNDED, ground_all
from tabellion.reading.pages import open_document

LEAF = {"value", "page", "box", "quote", "match"}  #: what a value has that was looked for; a field may be called so


def ground(
    file: Annotated[Path, typer.Argument(help="A PDF or an image.")],
    data: Annotated[
        Path, typer.Argument(help="JSON: values, or {value, quote} as models answer; - reads standard input.")
    ],
    password: Annotated[
        str | None, typer.Option("--password", envvar="TABELLION_PDF_PASSWORD", help="Opens an encrypted PDF.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the data with page, box, quote and match of each value.")
    ] = False,
) -> None:
    """Locate the values of a JSON file in a document; exit code 6 if some are not found.

    Example:

        tabellion ground invoice.pdf invoice.json
    """

    values = _values(data)
    try:
        with open_document(file, password=password) as document:
            told = ground_all(values, list(document))
        leaves = _leaves(told)
        if json:
            output.as_json(told)
    except Unreadable as error:
        if error.code != "pdf_encrypted":
            raise
        raise Unreadable(error.code, f"{error} (--password, or TABELLION_PDF_PASSWORD)") from None
    except RecursionError:
        raise Permanent(f"{data}: lists and objects are nested too deeply") from None
    if not json:
        headings = ("field", "value", "match", "page", "box", "quote")
        output.show(output.table("", headings, [_format_row(path, one) for path, one in leaves]))
    if any(one["match"] == UNGROUNDED for _, one in leaves):
        raise typer.Exit(6)


def _values(path: Path) -> Any:
    try:
        text = typer.get_text_stream("stdin").read() if str(path) == "-" else path.read_text("utf-8")
        values = loads(text)
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror}") from None
    except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Permanent(f"{path}: not JSON: {error}") from None
    # What `tabellion read` wrote: its fields are the values, the rest is about the file.
    own = isinstance(values, dict) and {"file", "verdict", "pages", "fields"} <= values.keys()
    return _pick_values(values["fields"]) if own else values


def _pick_values(fields: Any) -> Any:
    """The values and quotes of a reading's fields."""
    if not isinstance(fields, dict):
        return fields
    return {
        name: {key: one[key] for key in ("value", "quote") if key in one} if isinstance(one, dict) else one
        for name, one in fields.items()
    }


def _leaves(told: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    if isinstance(told, dict) and told.keys() >= LEAF and not isinstance(told["value"], dict | list):
        return [(path, told)]
    if isinstance(told, dict):
        parts = [(f"{path}.{key}" if path else str(key), value) for key, value in told.items()]
    elif isinstance(told, list):
        parts = [(f"{path}[{number}]", value) for number, value in enumerate(told)]
    else:
        parts = []
    return [leaf for place, value in parts for leaf in _leaves(value, place)]


def _format_row(path: str, one: dict[str, Any]) -> tuple[Any, ...]:
    box = " ".join(f"{side:.3f}" for side in one["box"]) if one["box"] else ""
    return path, str(one["value"]), one["match"], str(one["page"] or ""), box, one["quote"] or ""
