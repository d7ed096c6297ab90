"""The table `[sla]`: durations and shares, and queues and types that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion import Queue
from tabellion.config import Config, load
from tabellion.errors import ConfigurationError
from tabellion.installed_pipelines import find_pipelines, known_events
from tabellion.monitor.view import QueueView
from tabellion.sla import SlaSettings, targets_of, tasks_of, views_of

MINE = Queue("mine", ready=1, running=2, done=3, failed=4)


def configured(folder: Path, text: str) -> Config:
    """Return the configuration of a file with this text."""
    file = folder / "tabellion.toml"
    file.write_text(text)
    return load(file, {})


def test_the_table_of_the_configuration(tmp_path: Path) -> None:
    """Targets of queues and of what pipelines add, each with its limit."""
    config = configured(
        tmp_path,
        '[sla]\nfor = "90s"\n[sla.queues.documents]\noldest = "15m"\nfailed = 0.05\n[sla.queues.mine]\nfailed = 0\n'
        "[sla.types.invoice]\nreviewed = 0.95\n",
    )
    assert config.sla.wait == 90.0
    pipelines = find_pipelines(["documents"])
    targets = targets_of(config, pipelines, views_of(config, pipelines, [MINE]))
    assert {target.name: (target.limit, target.queue) for target in targets} == {
        "queues.documents.oldest": (900.0, "documents"), "queues.documents.failed": (0.05, "documents"),
        "queues.mine.failed": (0.0, "mine"), "types.invoice.reviewed": (0.95, "review"),
    }  # fmt: skip
    assert [target.name for target in targets if not target.is_kept(0.5)] == [
        "queues.documents.failed", "queues.mine.failed", "types.invoice.reviewed",
    ]  # fmt: skip


def test_without_the_table_snapshots_are_taken_all_the_same() -> None:
    """There is nothing to check, and the states of a target would change after five minutes."""
    config = load(None, {})
    assert config.sla == SlaSettings(300.0, {})
    [task] = tasks_of(config, find_pipelines(["documents"]), [MINE], config.environments[0])
    assert (task.name, task.every) == ("sla", 60.0)


def test_a_variable_sets_the_wait() -> None:
    """0 alerts at once."""
    assert load(None, {"TABELLION_SLA_FOR": "0"}).sla.wait == 0.0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[sla]\nfor = "soon"', r"sla\.for: 'soon' is not a duration"),
        ('[sla]\nfro = "5m"', r"unknown key 'sla\.fro'; did you mean 'sla\.for'"),
        ('[sla.queues.documents]\noldset = "5m"', r"queues\.documents: unknown target 'oldset'; did you mean 'oldest'"),
        ('[sla.queues.documents]\noldest = 900', r"sla\.queues\.documents\.oldest: 900 is not a duration"),
        ('[sla.queues.documents]\nfailed = "5%"', r"sla\.queues\.documents\.failed: '5%' is not a share"),
        ("[sla.queues.documents]\nfailed = 5", r"sla\.queues\.documents\.failed: 5 is not a share"),
        ('[sla.queues]\ndocuments = "15m"', r"sla\.queues\.documents: write \[sla\.queues\.documents\]"),
        ('[sla.queues.document]\noldest = "5m"', r"sla\.queues: unknown queue 'document'; did you mean 'documents'"),
        ("[sla.types.invoices]\nreviewed = 0.9", r"types: unknown document type 'invoices'; did you mean 'invoice'"),
        ("[sla.types.invoice]\nreview = 0.9", r"sla\.types\.invoice: unknown target 'review'; did you mean 'reviewed'"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, text: str, error: str) -> None:
    """Each error names the key and what may have been meant."""
    pipelines = find_pipelines(["documents"])

    def read() -> None:
        config = configured(tmp_path, text)
        targets_of(config, pipelines, views_of(config, pipelines, []))

    with pytest.raises(ConfigurationError, match=error):
        read()


def test_queues_of_pipelines_that_run_elsewhere(tmp_path: Path) -> None:
    """Processes may share one configuration: their targets are checked where the pipeline runs."""
    config = configured(tmp_path, '[sla.queues.documents]\noldest = "15m"\n')
    assert targets_of(config, find_pipelines(["websites"]), [QueueView(MINE)]) == []


def test_endpoints_can_subscribe_to_alerts() -> None:
    """Also where no pipeline has events."""
    assert {"sla.breached", "sla.recovered"} <= set(known_events())
