"""`tabellion audit`: whether the trail is intact, and the history of a document."""

from __future__ import annotations

import pytest

from tabellion.accounts.tables import GENESIS
from tests.accounts.test_audit import OFF, appended, some
from tests.cli.project import Project
from tests.workers import ask

pytestmark = pytest.mark.usefixtures("documents")


def test_a_trail_is_verified(project: Project) -> None:
    """Intact: exit code 0 and the last hash; changed: exit code 6 and the entry."""
    assert project.json("audit", "verify") == {
        "whole": True, "entries": 0, "head": GENESIS, "broken": None, "why": "",
    }  # fmt: skip
    ask(project.url, lambda store: appended(store, *some(5)))
    found = project.json("audit", "verify")
    assert (found["whole"], found["entries"]) == (True, 5)
    shown = project.run("audit", "verify", "--known", found["head"])
    assert shown.exit_code == 0
    assert "5 entries" in shown.output
    assert found["head"] in shown.output
    missed = project.run("audit", "verify", "--known", "f" * 64)
    assert missed.exit_code == 6
    for trigger in OFF["sqlite" if project.url.startswith("sqlite") else "postgresql"]:
        project.sql(trigger)
    project.sql("UPDATE tabellion_audit_log SET actor = 'nobody' WHERE n = 3")
    broken = project.run("audit", "verify")
    assert broken.exit_code == 6
    assert "entry 3" in broken.stderr
    assert '"broken": 3' in project.run("audit", "verify", "--json").stdout


def test_the_history_of_a_document(project: Project) -> None:
    """As a table and as JSON; exit code 5 for an unknown document."""
    ask(project.url, lambda store: appended(store, *some(5)))
    entries = project.json("audit", "show", "d1")
    assert [one["n"] for one in entries] == [2, 5]
    shown = project.run("audit", "show", "d1")
    assert "corrected" in shown.output
    assert "(nothing)" in shown.output
    nothing = project.run("audit", "show", "d9")
    assert nothing.exit_code == 5
    assert "d9" in nothing.stderr
