"""`tabellion analyses`: mistakes with their lines, a list, one type."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.project import Project
from tests.pipelines.websites.test_analysis_type_file import GOOD


def test_check_lists_every_mistake(lite: Project, tmp_path: Path) -> None:
    """With its line and a fix; 3 for mistakes, 5 for a file that cannot be read, 0 if all is well."""
    good, bad = tmp_path / "hiring.yaml", tmp_path / "bad.yaml"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("name: hiring", "name: bad").replace("remote: flag", "remote: flog"))
    fine = lite.run("analyses", "check", str(good))
    assert (fine.exit_code, "ok, hiring 1, 6 fields" in fine.output) == (0, True), fine.output
    wrong = lite.run("analyses", "check", str(good), str(bad), "--json")
    assert wrong.exit_code == 3
    [mistake] = json.loads(wrong.stdout)[1]["mistakes"]
    assert "found 'flog'" in mistake["what"]
    assert lite.run("analyses", "check", str(tmp_path / "none.yaml")).exit_code == 5


def test_list_and_show_say_what_there_is(lite: Project) -> None:
    """The types that ship, and the schema of the answers of models."""
    listed = json.loads(lite.run("analyses", "list", "--json").stdout)
    assert [(one["name"], one["from"]) for one in listed] == [
        ("profile", "shipped"), ("seo", "shipped"), ("trust", "shipped"),
    ]  # fmt: skip
    schema = json.loads(lite.run("analyses", "show", "seo", "--schema").stdout)
    assert set(schema["properties"]) == {"summary", "score", "keywords", "findings"}
    assert "budget: 8,000 tokens" in lite.run("analyses", "show", "profile").output
