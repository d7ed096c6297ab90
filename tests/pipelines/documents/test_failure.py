"""A failure is a code, a sentence and what was tried."""

from __future__ import annotations

import json

import pytest

from tabellion.errors import ConfigurationError
from tabellion.models.errors import BadOutput, KeyRefused, Rejected, Throttled, Unavailable
from tabellion.pipelines.documents.failure import CODES, LONGEST, Failed, code_of
from tabellion.pipelines.documents.lookup import problem
from tabellion.pipelines.documents.settings import Unknown
from tabellion.reading import errors
from tabellion.storage.lake import LakeError


@pytest.mark.parametrize(
    ("error", "code"),
    [(errors.Unreadable("pdf_empty"), "pdf_empty"), (Rejected("no"), "model_rejected"),
     (BadOutput("x", "json"), "model_bad_output"), (Unavailable("503"), "model_unavailable"),
     (KeyRefused("401"), "model_refused_key"), (Throttled("429"), "model_unavailable"),
     (ConfigurationError("x"), "configuration"), (Unknown("type", "x", []), "configuration"),
     (LakeError("x"), "outputs_failed"), (OSError(28, "full"), "outputs_failed"), (ZeroDivisionError(), "internal")],
)  # fmt: skip
def test_every_error_has_a_code_that_is_listed(error: Exception, code: str) -> None:
    """Those of unreadable documents are the reader's."""
    assert code_of(error) == code
    assert code in CODES or code in errors.CODES


def test_the_words_are_the_column_s_json() -> None:
    """Whole, whatever was said, and within what the column keeps."""
    failed = Failed(ValueError("a\x00b\ud800" + "x" * 10_000), 4, ["read here"])
    found = json.loads(str(failed))
    assert found == problem(str(failed))
    assert (found["code"], found["attempts"], found["tried"]) == ("internal", 4, ["read here"])
    assert found["message"].startswith("a\\x00b\\ud800")
    assert len(found["message"]) == LONGEST
    assert json.loads(str(Failed(ZeroDivisionError(), 1, [])))["message"] == "ZeroDivisionError"
