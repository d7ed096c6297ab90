"""Stored errors: the text beside its code and parameters, with which pages show it in their own language.

The rows of batches store all three. The engine writes only the text of an attempt's error into its row, and keeps the
code with the attempt; when a chunk ends, the codes of its refs are copied to their rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tabellion.engine.database import FetchRows
from tabellion.messages import DEFAULT, Message, translate
from tabellion.monitor.fingerprint import form, shape

ErrorForm = dict[str, Any]  #: a code and its parameters
AttemptedRow = tuple[str, str]  #: a queue, and the key of a row

#: Attempts after which the error of their row is as it was before.
_SILENT = "'limited', 'released', 'superseded', 'parked'"


def split_error(error: str) -> tuple[str, str | None, str | None]:
    """An error as it is stored: its text, its code and its parameters; without a code if it is not a message."""
    if not isinstance(error, Message):
        return error, None, None
    params = error.form["params"]
    return str.__str__(error), error.code, json.dumps(params) if params else None


def restore_error(text: str, code: str | None, params: str | None) -> str:
    """The message of a stored error; the text alone if it was stored without a code."""
    return Message.from_stored(text, stored_form(text, code, params))


def stored_form(text: str, code: str | None, params: str | None) -> ErrorForm:
    """The code and parameters of a stored error; empty if it has none, or if they are not those of its text.

    The engine, and processes of an earlier version, write a text and leave the code of an earlier error beside it.
    """
    known = form(text, code, params)
    error = Message.from_stored(text, known)
    if code is not None and isinstance(error, Message) and translate(DEFAULT, error.code, **error.params) != text:
        return {}
    return known


async def read_forms(fetch: FetchRows, places: Iterable[AttemptedRow]) -> dict[AttemptedRow, ErrorForm]:
    """The forms of errors that the engine has written: those of the last attempts of these rows. Errors that are not
    messages have none."""
    wanted = set(places)
    if not wanted:
        return {}
    queues, keys = (sorted({place[part] for place in wanted}) for part in (0, 1))
    rows = await fetch(
        f"""SELECT a.queue, a.key, a.error, a.error_code, a.error_params FROM tabellion_attempts AS a
WHERE a.queue IN ({marks(1, len(queues))}) AND a.key IN ({marks(len(queues) + 1, len(keys))})
  AND a.error IS NOT NULL AND a.n = ({_last("a.queue", "a.key", "max(l.n)")})""",
        *queues, *keys,
    )  # fmt: skip
    forms = {(row["queue"], row["key"]): form(row["error"], row["error_code"], row["error_params"]) for row in rows}
    return {place: known for place, known in forms.items() if known and place in wanted}


def last_attempt(queue: str, key: str, column: str) -> str:
    """A column of the last attempt of a row that has written to the row, as SQL; `key` is the SQL of its key."""
    name = f"'{queue}'"
    return f"({_last(name, key, f'l.{column}')} ORDER BY l.n DESC LIMIT 1)"


def _last(queue: str, key: str, chosen: str) -> str:
    return f"""SELECT {chosen} FROM tabellion_attempts AS l WHERE l.queue = {queue} AND l.key = {key}
    AND l.settled_at IS NOT NULL AND l.outcome NOT IN ({_SILENT})"""


def kind(text: str, known: ErrorForm | None) -> str:
    """What errors of one kind have in common: the code, also of the messages within it, or else the text's shape."""
    return shape(text) if not known else _kind_of(known)


def _kind_of(known: ErrorForm) -> str:
    inner = []
    for name, value in sorted((known.get("params") or {}).items()):
        if isinstance(value, dict) and "code" in value:
            inner.append(_kind_of(value))
        elif name == "detail" and isinstance(value, str):  # the sentence of another system
            inner.append(shape(value))
    return f"{known['code']}({', '.join(inner)})"


def marks(first: int, count: int) -> str:
    """Placeholders of values, from this number on."""
    return ", ".join(f"${number}" for number in range(first, first + count))
