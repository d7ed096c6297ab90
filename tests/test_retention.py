"""Times of the configuration, and the rules that are made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.config import load
from tabellion.errors import ConfigurationError
from tabellion.installed_pipelines import find_pipelines
from tabellion.retention import parse_duration, rules_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90d", 90 * 86_400.0), ("12h", 43_200.0), ("1.5h", 5400.0), ("2 w", 14 * 86_400.0), ("1y", 365 * 86_400.0),
     ("90m", 5400.0), ("never", None), ("0", None), (0, None), ("0d", None), (" Never ", None)],
)  # fmt: skip
def test_durations(text: str | int, seconds: float | None) -> None:
    """A number and its unit; 0 and never keep everything."""
    assert parse_duration(text, "retention.attempts") == seconds


@pytest.mark.parametrize("text", ["90", "d", "-1d", "90 days", "", 90, "1e9d", "30m", "10s"])
def test_what_is_no_duration(text: str | int) -> None:
    """The error names the key and how to write it."""
    with pytest.raises(ConfigurationError, match=r'retention\.memos: .*(e\.g\. "90d"|at least "1h")'):
        parse_duration(text, "retention.memos")


def test_a_time_before_all_history_is_refused() -> None:
    """Databases cannot subtract it from now; the error names the key."""
    assert parse_duration("1000y", "retention.attempts") == 1000 * 365 * 86_400.0
    with pytest.raises(ConfigurationError, match=r'retention\.attempts: .*at most "1000y"'):
        parse_duration("99999999y", "retention.attempts")


def test_the_table_of_the_configuration(tmp_path: Path) -> None:
    """Keys of the register and of pipelines, variables, and the defaults."""
    file = tmp_path / "tabellion.toml"
    file.write_text('[retention]\nattempts = "90d"\nmemos = 0\ndocuments = "2y"\nwebsites = "never"\n')
    config = load(file, {"TABELLION_RETENTION_MEMOS": "1y", "TABELLION_RETENTION_DECISIONS": "3y"})
    rules = rules_of(config, find_pipelines(["documents", "websites"]), [], config.environments[0])
    year = 365 * 86_400.0
    assert {rule.name: rule.keep for rule in rules} == {
        "attempts": 90 * 86_400.0, "memos": year, "deliveries": 30 * 86_400.0,
        "snapshots": 400 * 86_400.0, "documents": 2 * year, "decisions": 3 * year, "websites": None,
    }  # fmt: skip
    assert config.section("retention") == {}


def test_nothing_of_value_is_removed_by_default() -> None:
    """Only deliveries that their receivers have accepted, and hourly snapshots."""
    config = load(None, {})
    rules = rules_of(config, find_pipelines(["documents", "websites"]), [], config.environments[0])
    assert {rule.name for rule in rules if rule.keep is not None} == {"deliveries", "snapshots"}


def test_an_unknown_rule_is_an_error(tmp_path: Path) -> None:
    """With the one that is meant."""
    file = tmp_path / "tabellion.toml"
    file.write_text('[retention]\nattempt = "90d"\n')
    with pytest.raises(ConfigurationError, match=r"did you mean 'retention\.attempts'"):
        load(file, {})


def test_the_attempts_of_all_queues_are_covered() -> None:
    """Also of review, whose workers are people."""
    config = load(None, {})
    rules = rules_of(config, find_pipelines(["documents"]), [], config.environments[0])
    [attempts] = [rule for rule in rules if rule.name == "attempts"]
    assert {"documents", "followers", "failures", "review"} <= attempts.queues.keys()  # type: ignore[attr-defined]
