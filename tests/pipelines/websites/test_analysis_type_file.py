"""Analysis types: those that ship are valid, and every mistake in one's own is reported with its line."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest

from tabellion.errors import ConfigurationError
from tabellion.models.strict import make_strict
from tabellion.pipelines.websites.analysis_type_file import SHIPPED, find_files, load, read
from tabellion.reading.types.yamlnode import TypeFileError

GOOD = """
name: hiring
version: "1"
title: {en: Hiring, fr: Recrutement}
models: [openai]
budget: 2000
prompt:
  system: Answer in {language}.
  user: "{url} {facts} {text}"
fields:
  summary: {type: text, required: true}
  roles: {type: texts, most: 5}
  remote: flag
  size: {type: choice, options: [small, large]}
  score: {type: number, least: 0, most: 10}
  notes: findings
"""


@pytest.mark.parametrize("name", ["profile", "seo", "trust"])
def test_types_that_ship_are_complete(name: str) -> None:
    """They have titles in both languages, rules for no model at all, and a schema that models can be held to."""
    kind = load(name)
    assert kind.rules == name
    assert set(kind.titles) == set(kind.descriptions) == {"en", "fr"}
    assert all(set(spec.titles) == {"en", "fr"} for spec in kind.fields)
    assert kind.field("summary") is not None
    jsonschema_rs.validator_for(kind.json_schema())
    assert make_strict(kind.json_schema()) is not None


def test_a_type_of_ones_own_is_read(tmp_path: Path) -> None:
    """With its schema; a file in one's own folder takes precedence over one that ships."""
    (tmp_path / "hiring.yaml").write_text(GOOD)
    (tmp_path / "seo.yaml").write_text(GOOD.replace("name: hiring", "name: seo"))
    kind = load("hiring", [tmp_path])
    assert (kind.models, kind.budget, kind.rules) == (("openai",), 2000, None)
    schema = kind.json_schema()["properties"]
    assert schema["roles"]["maxItems"] == 5
    assert schema["score"]["properties"]["value"]["maximum"] == 10
    assert schema["notes"]["items"]["properties"]["level"]["enum"] == ["good", "info", "warning", "bad"]
    assert find_files([tmp_path])["seo"].parent == tmp_path
    assert find_files([tmp_path])["trust"].parent == SHIPPED


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        (("models: [openai]", "modles: [openai]"), "4:1: unknown key 'modles'"),
        (("{type: texts, most: 5}", "{type: lists}"), "11:17: type is one of"),
        (("{facts} {text}", "{facts} {txt}"), "unknown placeholder {txt}"),
        (("{facts} {text}", "{facts}"), "prompt.user does not contain {text}"),
        (("options: [small, large]", "title: Size"), "a choice without options"),
        (("budget: 2000", "budget: 10"), "5:9: budget must be at least 500"),
        (('version: "1"\n', ""), "version is missing"),
        (("name: hiring", "name: Hiring!"), "not a valid name"),
        (("notes: findings", "notes: {type: text, most: 4}"), "most is for numbers and lists"),
        (("remote: flag", "remote: {type: flag, options: [a]}"), "options are for the type choice"),
        (("title: {en: Hiring, fr: Recrutement}", "rules: guess"), "rules is one of profile, seo, trust"),
    ],
)
def test_a_mistake_is_reported_with_its_place(change: tuple[str, str], mistake: str) -> None:
    """And with what to write instead."""
    assert change[0] in GOOD
    with pytest.raises(TypeFileError) as refused:
        read(GOOD.lstrip().replace(*change), "hiring.yaml", "hiring" if "Hiring!" not in change[1] else None)
    assert mistake in str(refused.value)


def test_all_mistakes_are_reported_at_once() -> None:
    """Not one after the other."""
    text = GOOD.lstrip().replace("remote: flag", "remote: flog").replace("budget: 2000", "budget: lots")
    with pytest.raises(TypeFileError) as refused:
        read(text, "hiring.yaml")
    assert len(refused.value.mistakes) == 2


def test_an_unknown_type_lists_the_known_ones(tmp_path: Path) -> None:
    """Also one whose file has another name than it says."""
    with pytest.raises(ConfigurationError, match="known: profile, seo, trust"):
        load("nonsense", [tmp_path])
    (tmp_path / "jobs.yaml").write_text(GOOD)
    with pytest.raises(TypeFileError, match="the file is named 'jobs'"):
        load("jobs", [tmp_path])
