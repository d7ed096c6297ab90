"""tabellion gates: the gates of the models, shown and changed."""

from __future__ import annotations

import asyncio

from tabellion import GateSettings, Store
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import CallOutcomes
from tabellion.pipelines.registries.settings import GATE
from tests.cli.project import Project


def configured(project: Project, text: str) -> None:
    with (project.folder / "tabellion.toml").open("a") as file:
        file.write(text)


def report_outcomes(project: Project, news: CallOutcomes) -> None:
    async def go() -> None:
        async with Store(project.url) as store:
            await GateRow(store, "gemini", GateSettings()).turn(news, 0)

    asyncio.run(go())


def test_without_gates_it_says_so(lite: Project) -> None:
    """No gate is not an error."""
    assert "no gates yet" in lite.run("gates").output
    assert lite.json("gates") == []


def test_a_closed_gate_is_shown_with_its_reason_and_reset(project: Project) -> None:
    """An outage is shown; --reset ends it."""
    report_outcomes(project, CallOutcomes(failed=5, why="gemini returned HTTP 503: overloaded"))
    [gate] = project.json("gates")
    assert (gate["gate"], gate["state"], gate["breaker"]) == ("gemini", "closed", "open")
    assert "gemini returned HTTP 503: overloaded" in gate["reason"]
    assert 50 < gate["reopens_in"] <= 60
    assert "gemini returned HTTP 503" in " ".join(project.run("gates").output.split())
    [gate] = project.json("gates", "gemini", "--reset")
    assert (gate["state"], gate["breaker"]) == ("open", "closed")


def test_rate_and_budget_are_changed_at_run_time(project: Project) -> None:
    """An operator's setting overrides the configuration, and stays."""
    configured(project, "[gates.gemini]\nrate = 2\nmax_rate = 5\nbudget = 1\n")
    [gate] = project.json("gates", "gemini")
    assert (gate["rate"], gate["max_rate"], gate["budget"]) == (2, 5, 1)
    project.json("gates", "gemini", "--rate", "20", "--max-rate", "50", "--budget", "7.5")
    [gate] = project.json("gates")
    assert (gate["rate"], gate["max_rate"], gate["budget"]) == (20, 50, 7.5)
    report_outcomes(project, CallOutcomes(ok=1, spent=2.5))
    assert project.json("gates")[0]["spent"] == 2.5
    assert "$2.50 of $7.50" in project.run("gates").output


def test_errors_are_explained(lite: Project) -> None:
    """An unknown gate, a change without a gate, an invalid setting."""
    configured(lite, "[gates.gemini]\n")
    result = lite.run("gates", "gemmini", "--reset")
    assert result.exit_code == 3
    assert "known: 'gemini'" in str(result.exception)
    assert lite.run("gates", "--rate", "5").exit_code == 2
    result = lite.run("gates", "gemini", "--rate", "0")
    assert result.exit_code == 3
    assert "rate" in str(result.exception)


def test_explain_names_the_closed_gate(lite: Project) -> None:
    """A row that waits for its queue's gate says so, with the command that shows it."""
    queues = lite.folder / "queues.py"
    queues.write_text(queues.read_text().replace("retry_base=0.05,", 'retry_base=0.05, uses="gemini",'))
    lite.insert("x")
    report_outcomes(lite, CallOutcomes(refused="gemini does not accept the key"))
    text = " ".join(lite.run("explain", "invoices", "1").output.split())
    assert "Gate 'gemini' is closed: gemini does not accept the key" in text
    assert "tabellion gates gemini" in text
    assert "does not accept the key" in lite.json("status")[0]["queues"][0]["gate"]


def test_status_shows_the_cost(project: Project) -> None:
    """The costs recorded by attempts are summed per queue."""
    queues = project.folder / "queues.py"
    queues.write_text(queues.read_text().replace('    return {"total"', '    job.cost = 0.125\n    return {"total"'))
    project.insert("a", "b")
    project.work()
    assert project.json("status")[0]["queues"][0]["cost"] == 0.25
    assert "$0.25" in project.run("status").output


def test_gates_of_a_pipeline_have_its_settings(lite: Project) -> None:
    """Even before the first call."""
    gates = lite.json("gates", "--with", "registries")
    assert gates
    assert {(gate["min_rate"], gate["max_rate"]) for gate in gates} == {(GATE.min_rate, GATE.max_rate)}
