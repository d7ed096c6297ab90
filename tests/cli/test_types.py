"""tabellion types: files checked, types listed and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tabellion.cli import exit_code
from tabellion.cli.app import app
from tabellion.errors import TabellionError

LEASE = """\
name: lease
version: "1"
title: Lease
fields:
  tenant: {type: name, required: true}
  rent: {type: money, range: {min: 0}}
  kind: {type: choice, enum: [flat, shop]}
  rooms: {type: list, items: {name: text}}
validation:
  - {name: rent is paid, rule: rent > 0, severity: warning}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a custom type."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "lease.yaml").write_text(LEASE)
    return tmp_path


def run(*words: str) -> tuple[Result, int]:
    """Return what a command prints, and its exit code as on the command line."""
    result = CliRunner().invoke(app, ["types", *words], env={"COLUMNS": "200"})
    if isinstance(result.exception, TabellionError):
        return result, exit_code(result.exception)
    return result, result.exit_code


def parse_output(*words: str) -> Any:
    return json.loads(run(*words, "--json")[0].stdout)


def test_a_valid_file_is_confirmed() -> None:
    """With its name, version and content; without arguments, all custom ones are checked."""
    result, code = run("check", "types/lease.yaml")
    assert (code, result.stdout) == (0, "types/lease.yaml: ok, lease 1, 4 fields, 1 rules\n")
    assert run("check")[0].stdout == result.stdout
    [one] = parse_output("check")
    assert (one["ok"], one["type"]["name"], one["mistakes"]) == (True, "lease", [])


def test_every_error_is_reported_by_line_with_exit_code_3(folder: Path) -> None:
    """Editors can jump to file:line:column; programs get the same as JSON."""
    path = folder / "types" / "lease.yaml"
    path.write_text(LEASE.replace("type: money", "type: amount").replace("rent > 0", "rnet > 0"))
    result, code = run("check", "types/lease.yaml")
    assert code == 3
    assert result.stdout.splitlines()[:2] == [
        "types/lease.yaml:6:16: unknown type 'amount'",
        "   fix: write money: an amount such as 1234.50, without currency",
    ]
    assert "types/lease.yaml:10:32: unknown field 'rnet'; did you mean 'rent'?" in result.stdout
    [one] = parse_output("check", "types/lease.yaml")
    assert [(mistake["line"], mistake["column"]) for mistake in one["mistakes"]] == [(6, 16), (10, 32)]


def test_a_file_that_cannot_be_read_exits_with_5() -> None:
    """The others are still checked."""
    result, code = run("check", "gone.yaml", "types/lease.yaml")
    assert code == 5
    assert "gone.yaml: No such file" in result.stderr
    assert "ok, lease" in result.stdout


def test_nothing_to_check_is_not_an_error(folder: Path) -> None:
    """A folder without types is reported as such."""
    (folder / "types" / "lease.yaml").unlink()
    result, code = run("check")
    assert (code, result.stdout) == (0, "no type files in types\n")


def test_the_list_has_custom_types_first_and_marks_broken_ones(folder: Path) -> None:
    """A broken type is listed with the command that explains it."""
    (folder / "types" / "lease.yaml").write_text("name: lease\n")
    found = {one["name"]: one for one in parse_output("list")}
    assert list(found) == ["lease", "deed", "invoice", "receipt"]
    assert found["lease"]["wrong"] == "2 errors: tabellion types check types/lease.yaml"
    assert (found["invoice"]["from"], found["invoice"]["wrong"]) == ("shipped", None)
    assert "receipt" in run("list")[0].stdout


def test_a_type_is_shown() -> None:
    """Fields, columns, limits and rules; all of it as JSON."""
    text = run("show", "lease")[0].stdout
    for wanted in ("tenant", "≥ 0", "flat, shop", ".name", "rent is paid", "rent > 0"):
        assert wanted in text
    assert "26 options" in run("show", "deed")[0].stdout
    found = parse_output("show", "types/lease.yaml")
    assert [one["name"] for one in found["fields"]] == ["tenant", "rent", "kind", "rooms"]
    assert found["rules"][0]["fields"] == ["rent"]
    assert found["processing"]["review"] == "doubtful"


def test_what_a_type_compiles_to() -> None:
    """Schemas for each provider, the form, the prompt and the hints."""
    plain = json.loads(run("show", "lease", "--schema", "json")[0].stdout)
    assert plain["properties"]["rent"]["type"] == ["string", "null"]
    for provider in ("gemini", "openai"):
        output = json.loads(run("show", "lease", "--schema", provider)[0].stdout)
        assert list(output["properties"]["rent"]["properties"]) == ["value", "quote", "page"]
    assert json.loads(run("show", "lease", "--schema", "form")[0].stdout)[1]["widget"] == "money"
    assert "- tenant (required)" in run("show", "lease", "--schema", "prompt")[0].stdout
    assert "tenant" in parse_output("show", "lease", "--schema", "prompt")["prompt"]
    assert "facture n°" in json.loads(run("show", "invoice", "--schema", "hints")[0].stdout)["invoice_number"]["labels"]


def test_errors_of_the_command_itself() -> None:
    """An unknown type is 3 and lists the known ones; an unknown schema is 2."""
    result, code = run("show", "leese")
    assert code == 3
    assert "known: lease, deed, invoice, receipt" in str(result.exception)
    assert run("show", "lease", "--schema", "xml")[1] == 2


def test_folders_are_configured(folder: Path) -> None:
    """`types` in tabellion.toml names other folders."""
    (folder / "tabellion.toml").write_text("types = ['elsewhere']\n")
    assert [one["name"] for one in parse_output("list")] == ["deed", "invoice", "receipt"]


def test_a_suggestion_may_have_several_lines(folder: Path) -> None:
    """Each is printed as a line that can be copied."""
    (folder / "types" / "lease.yaml").write_text('name: lease\nversion: "1"\n')
    lines = run("check")[0].stdout.splitlines()
    assert lines[1:] == ["   fix: fields:", "     total: {type: money, required: true}"]
