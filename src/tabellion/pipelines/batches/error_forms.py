"""The codes of stored errors, from the register: with them, pages show an error in their own language."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tabellion.messages import Translated
from tabellion.monitor.fingerprint import form

if TYPE_CHECKING:
    from tabellion.engine.store import Store

#: A queue, the key of a row, and the error that is stored in the row.
StoredError = tuple[str, str, str]


async def read_forms(store: Store, errors: Iterable[StoredError]) -> dict[StoredError, dict[str, Any]]:
    """The form of each error that the register has with a code; an error without one stays a text."""
    wanted = set(errors)
    if not wanted:
        return {}
    queues, keys = (sorted({error[place] for error in wanted}) for place in (0, 1))
    rows = await store.database.fetch(
        f"""SELECT queue, key, error, error_code, error_params FROM tabellion_attempts
WHERE queue IN ({_marks(1, len(queues))}) AND key IN ({_marks(len(queues) + 1, len(keys))})
  AND error_code IS NOT NULL""",
        *queues, *keys,
    )  # fmt: skip
    found = {(row["queue"], row["key"], row["error"]): row for row in rows}
    forms = {
        error: form(error[2], found[error]["error_code"], found[error]["error_params"])
        for error in wanted
        if error in found
    }
    return {error: known for error, known in forms.items() if known}


def translatable_field(forms: dict[StoredError, dict[str, Any]], error: StoredError) -> Translated:
    """The field `translatable` of an answer with this error; nothing if it has no form."""
    return {"translatable": {"error": forms[error]}} if error in forms else {}


def _marks(first: int, count: int) -> str:
    return ", ".join(f"${number}" for number in range(first, first + count))
