"""Settings of a visit refuse what cannot work."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion.pipelines.websites.site.settings import VisitSettings


@pytest.mark.parametrize(
    "changes",
    [{"browser": "maybe"}, {"pages": 0}, {"page_bytes": 0}, {"seconds": -1.0}, {"pause": -1.0}, {"user_agent": " /"}],
)
def test_a_setting_that_cannot_work_is_refused(changes: dict[str, Any]) -> None:
    """The error names it."""
    with pytest.raises(ValueError, match=next(iter(changes))):
        VisitSettings(**changes)


def test_the_name_for_robots_is_the_first_word_of_the_user_agent() -> None:
    """In lower case, without its version."""
    assert VisitSettings().robots_name == "tabellion"
    assert VisitSettings(user_agent="BakeryBot/2.0 (+https://bakery.example)").robots_name == "bakerybot"
