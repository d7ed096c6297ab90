"""Names in two spellings."""

from __future__ import annotations

from tabellion.models.fake.gemini_request import get


def test_a_value_by_either_name() -> None:
    """camelCase first, then snake_case, then nothing; false is a value too."""
    assert get({"maxOutputTokens": 0, "max_output_tokens": 5}, "maxOutputTokens") == 0
    assert get({"max_output_tokens": 5}, "maxOutputTokens") == 5
    assert get({}, "maxOutputTokens") is None
