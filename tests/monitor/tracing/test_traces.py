"""OTEL_* variables switch traces on; without them there are none."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tabellion.engine.log import log_to_stderr
from tabellion.monitor.tracing.subject import Subject
from tabellion.monitor.tracing.traces import is_configured, open_traces

ROW = Subject("prod", "tabellion_documents", "01K")
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False), ({"OTEL_SERVICE_NAME": "x"}, False), ({ENDPOINT: "http://localhost:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318"}, True),
        ({ENDPOINT: "http://localhost:4318", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({ENDPOINT: "http://localhost:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
    ],
)  # fmt: skip
def test_variables_decide(variables: dict[str, str], expected: bool) -> None:
    """An endpoint or an exporter switches traces on, the usual variables off."""
    assert is_configured(variables) == expected


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {ENDPOINT: "http://localhost:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported",
        ),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER=zipkin is not supported"),
    ],
)
def test_what_is_not_supported_is_said(variables: dict[str, str], said: str, caplog: pytest.LogCaptureFixture) -> None:
    """A warning with the value and what to use instead; the service starts."""
    assert open_traces(variables) is None
    [record] = caplog.records
    assert said in record.message
    assert "http/protobuf" in record.message


def test_nothing_is_imported_without_variables() -> None:
    """Neither OpenTelemetry nor prometheus_client, in a worker that has neither traces nor a port."""
    script = """import sys
from tabellion.cli import worker, observing
with observing.process_traces():
    pass
print([name for name in sys.modules if name.startswith(("opentelemetry", "prometheus_client"))])"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env={})
    assert done.stdout.strip() == "[]"


def test_the_sdk_logs_as_we_do(capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object per line, also about a collector that does not answer."""
    ours, theirs = logging.getLogger("tabellion"), logging.getLogger("opentelemetry")
    before = [(one, one.handlers[:], one.level, one.propagate) for one in (ours, theirs)]
    try:
        log_to_stderr(as_json=True)
        traces = open_traces({}, exporter=InMemorySpanExporter())
        logging.getLogger("opentelemetry.sdk").warning("the collector is away")
        line = capsys.readouterr().err.splitlines()[-1]
    finally:
        for logger, handlers, level, propagate in before:
            logger.handlers[:], logger.propagate = handlers, propagate
            logger.setLevel(level)
    assert traces is not None
    traces.close()
    assert json.loads(line)["message"] == "the collector is away"


def test_spans_belong_to_the_trace_of_their_row() -> None:
    """The first span has the id that others take for their parent; times and errors are kept, texts are not sent."""
    exporter = InMemorySpanExporter()
    traces = open_traces({}, exporter=exporter)
    assert traces is not None
    sent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    traces.record(ROW, "upload", 100.0, 101.5, parent=None, id=ROW.root_id, kind="server", links=sent)
    traces.record(ROW, "process", 102.0, 103.0, parent=ROW.root_id, is_error=True, attributes={"tabellion.queue": "q"})
    traces.close()
    first, second = exporter.get_finished_spans()
    assert first.context.trace_id == second.context.trace_id == ROW.trace_id
    assert (first.context.span_id, first.parent) == (ROW.root_id, None)
    assert second.parent is not None
    assert second.parent.span_id == ROW.root_id
    assert (first.start_time, first.end_time) == (100_000_000_000, 101_500_000_000)
    assert [link.context.trace_id for link in first.links] == [0x0AF7651916CD43DD8448EB211C80319C]
    assert (first.status.status_code, second.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert dict(second.attributes or {}) == {
        "tabellion.environment": "prod", "tabellion.key": "01K", "tabellion.queue": "q",
    }  # fmt: skip
    assert first.resource.attributes["service.name"] == "tabellion"


def test_a_trace_is_kept_or_dropped_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler decides by the id of the trace, which every process knows."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    exporter = InMemorySpanExporter()
    web, worker = open_traces({}, exporter=exporter), open_traces({}, exporter=exporter)
    assert web is not None
    assert worker is not None
    rows = [Subject("prod", "tabellion_documents", str(number)) for number in range(200)]
    for row in rows:
        web.record(row, "upload", 1.0, 2.0, parent=None, id=row.root_id)
        worker.record(row, "process", 2.0, 3.0, parent=row.root_id)
    web._provider.force_flush()
    worker._provider.force_flush()
    spans = exporter.get_finished_spans()
    web.close()
    worker.close()
    kept = [{span.context.trace_id for span in spans if span.name == name} for name in ("upload", "process")]
    assert kept[0] == kept[1]
    assert 50 < len(kept[0]) < 150


def test_a_collector_that_does_not_answer_delays_the_end_only_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last spans get a moment; then they are given up."""
    ended, hang = threading.Event(), threading.Event()

    class Silent(InMemorySpanExporter):
        def export(self, spans: Any) -> Any:
            hang.wait(60)
            ended.set()
            return super().export(spans)

    monkeypatch.setattr("tabellion.monitor.tracing.traces.GOODBYE", 0.05)
    traces = open_traces({}, exporter=Silent())
    assert traces is not None
    traces.record(ROW, "upload", 1.0, 2.0, parent=None)
    traces.close()
    assert not ended.is_set(), "it has not waited for the collector"
    hang.set()
    assert ended.wait(30)
