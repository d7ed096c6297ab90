"""`tabellion ground`: where do these values stand on the page?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def ground(
    file: Annotated[Path, typer.Argument(help="A PDF or an image.")],
    data: Annotated[
        Path, typer.Argument(help="JSON: values, or {value, quote} as models answer; - reads standard input.")
    ],
    json: Annotated[
        bool, typer.Option("--json", help="Print the data with page, box, quote and match of each value.")
    ] = False,
) -> None:
    """Locate the values of a JSON file in the words of a document; exit code 6 when some are nowhere.

    Example:

        tabellion ground invoice.pdf invoice.json
    """
    from tabellion.cli import output
    from tabellion.reading.grounding.ground import ground_all, ungrounded
    from tabellion.reading.pages import open_document

    values = _values(data)
    with open_document(file) as document:
        told = ground_all(values, list(document))
    if json:
        output.as_json(told)
    else:
        headings = ("field", "value", "match", "page", "box", "quote")
        output.show(output.table("", headings, [_shown(path, one) for path, one in _leaves(told)]))
    if any(True for _ in ungrounded(told)):
        raise typer.Exit(6)


def _values(path: Path) -> Any:
    from json import JSONDecodeError, loads

    from tabellion.engine.errors import Permanent

    try:
        text = typer.get_text_stream("stdin").read() if str(path) == "-" else path.read_text("utf-8")
        return loads(text)
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror}") from None
    except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Permanent(f"{path}: not JSON: {error}") from None


def _leaves(told: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    if isinstance(told, dict) and "match" in told:
        return [(path, told)]
    if isinstance(told, dict):
        parts = [(f"{path}.{key}" if path else str(key), value) for key, value in told.items()]
    elif isinstance(told, list):
        parts = [(f"{path}[{number}]", value) for number, value in enumerate(told)]
    else:
        parts = []
    return [leaf for place, value in parts for leaf in _leaves(value, place)]


def _shown(path: str, one: dict[str, Any]) -> tuple[Any, ...]:
    box = " ".join(f"{side:.3f}" for side in one["box"]) if one["box"] else ""
    return path, str(one["value"]), one["match"], str(one["page"] or ""), box, one["quote"] or ""
