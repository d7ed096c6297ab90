"""One trace from the upload of a document to its approval, as a collector of OpenTelemetry receives it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tabellion.models.fake.serving import serving
from tabellion.monitor.tracing.subject import Subject
from tests.cli.running import running
from tests.flows.test_review import PAPER, approve_item, document, edit_item, request
from tests.flows.test_service import SETTINGS
from tests.http_server import QuietHandler, serving_http
from tests.waiting import eventually


class Collector:
    """What a collector was sent by OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, ExportTraceServiceRequest]] = []
        self.url = ""

    def spans(self) -> list[Any]:
        """Every span so far."""
        return [
            span
            for _, request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def of(self, subject: Subject) -> dict[str, list[Any]]:
        """The spans of a row's trace by name."""
        found: dict[str, list[Any]] = {}
        for span in self.spans():
            if int.from_bytes(span.trace_id, "big") == subject.trace_id:
                found.setdefault(span.name, []).append(span)
        return found


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A real receiver of OTLP/HTTP on loopback."""
    collector = Collector()

    class Receiver(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the name of the library
            collector.requests.append((self.path, ExportTraceServiceRequest.FromString(self.body())))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.answer(200, answer, {"content-type": "application/x-protobuf"})

    with serving_http(Receiver) as collector.url:
        yield collector


def test_a_document_is_one_trace(tmp_path: Path) -> None:
    """Upload, claim, handler, call of the model, write, the actions of a reviewer: one tree, and no text in it."""
    (tmp_path / "tabellion.toml").write_text(SETTINGS)
    with collecting() as collector, serving() as model:
        variables = model.environment | {
            "TABELLION_CONFIG": str(tmp_path / "tabellion.toml"), "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_SERVICE_NAME": "tabellion-test", "OTEL_BSP_SCHEDULE_DELAY": "100",
        }  # fmt: skip
        with running(tmp_path / "data", **variables) as service:
            id = service.upload(PAPER, "confidential.pdf", type="invoice", model="gemini")["id"]  # noqa: A001
            found = document(service, id)
            assert found["review"]["status"] == "pending"
            item = request(service, "POST", "/api/review/claim", {})
            corrections = {"tax": {"action": "confirm"}, "total": {"action": "correct", "value": "120.00"}}
            item = edit_item(service, item, **corrections)
            approve_item(service, item)
            subject = Subject("default", "tabellion_documents", id)
            eventually(lambda: "process reviewed" in collector.of(subject), within=30)
            assert service.stop() == 0
        spans = collector.of(subject)
    assert {path for path, _ in collector.requests} == {"/v1/traces"}
    expected = {
        "POST /api/documents", "process documents_gemini", "claim", "handler", "call gemini", "settle",
        "POST /api/review/claim", "PATCH /api/review/items/{id}/fields", "POST /api/review/items/{id}/approve",
        "process reviewed",
    }  # fmt: skip
    assert expected <= set(spans), expected - set(spans)
    everything = [span for named in spans.values() for span in named]
    ids = {span.span_id for span in everything}
    assert len(ids) == len(everything)
    [root] = [span for span in everything if not span.parent_span_id]
    assert (root.name, int.from_bytes(root.span_id, "big")) == ("POST /api/documents", subject.root_id)
    assert {span.parent_span_id for span in everything if span is not root} <= ids
    [resource] = {
        attribute.value.string_value
        for _, sent in collector.requests
        for one in sent.resource_spans
        for attribute in one.resource.attributes
        if attribute.key == "service.name"
    }
    assert resource == "tabellion-test"
    sent = b"".join(request.SerializeToString() for _, request in collector.requests)
    for secret in (b"confidential", b"4711-X", b"120.00", service.key.encode()[-64:]):
        assert secret not in sent
