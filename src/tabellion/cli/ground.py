"""`tabellion ground`: finds where values are on the page."""

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

LEAF = {"value", "page", "box", "quote", "match"}  #: the keys of a located value; a field may have the name of one


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
            grounded = ground_all(values, list(document))
        leaves = _leaves(grounded)
        if json:
            output.as_json(grounded)
    except Unreadable as error:
        if error.code != "pdf_encrypted":
            raise
        raise Unreadable(error.code, f"{error} (--password, or TABELLION_PDF_PASSWORD)") from None
    except RecursionError:
        raise Permanent(f"{data}: lists and objects are nested too deeply") from None
    if not json:
        headings = ("field", "value", "match", "page", "box", "quote")
        output.show(output.table("", headings, [_format_row(path, leaf) for path, leaf in leaves]))
    if any(leaf["match"] == UNGROUNDED for _, leaf in leaves):
        raise typer.Exit(6)


def _values(path: Path) -> Any:
    try:
        text = typer.get_text_stream("stdin").read() if str(path) == "-" else path.read_text("utf-8")
        values = loads(text)
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror}") from None
    except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Permanent(f"{path}: not JSON: {error}") from None
    # Output of `tabellion read`: its fields are the values, the rest describes the file.
    is_reading = isinstance(values, dict) and {"file", "verdict", "pages", "fields"} <= values.keys()
    return _pick_values(values["fields"]) if is_reading else values


def _pick_values(fields: Any) -> Any:
    """The values and quotes of a reading's fields."""
    if not isinstance(fields, dict):
        return fields
    return {
        name: {key: entry[key] for key in ("value", "quote") if key in entry} if isinstance(entry, dict) else entry
        for name, entry in fields.items()
    }


def _leaves(node: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict) and node.keys() >= LEAF and not isinstance(node["value"], dict | list):
        return [(path, node)]
    if isinstance(node, dict):
        parts = [(f"{path}.{key}" if path else str(key), value) for key, value in node.items()]
    elif isinstance(node, list):
        parts = [(f"{path}[{number}]", value) for number, value in enumerate(node)]
    else:
        parts = []
    return [leaf for place, value in parts for leaf in _leaves(value, place)]


def _format_row(path: str, leaf: dict[str, Any]) -> tuple[Any, ...]:
    box = " ".join(f"{side:.3f}" for side in leaf["box"]) if leaf["box"] else ""
    return path, str(leaf["value"]), leaf["match"], str(leaf["page"] or ""), box, leaf["quote"] or ""
