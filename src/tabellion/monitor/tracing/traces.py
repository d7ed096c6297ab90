"""Sends spans to where OTEL_* variables say; without them nothing of OpenTelemetry is imported."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from tabellion.monitor.tracing.subject import Subject

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

logger = logging.getLogger("tabellion.monitor")
SERVICE = "tabellion"  #: the name of the service, if OTEL_SERVICE_NAME does not say
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTER = "OTEL_TRACES_EXPORTER"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP = "http/protobuf"
NANO = 1_000_000_000
GOODBYE = 3.0  #: seconds for the last spans when the process ends

SpanKind = Literal["internal", "server", "client", "consumer"]
Attributes = Mapping[str, str | int | float | bool]


def is_configured(variables: Mapping[str, str]) -> bool:
    """Whether OTEL_* variables ask for traces."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = variables.get(EXPORTER, "").strip().lower()
    return exporter != "none" and bool(exporter or any(variables.get(name) for name in ENDPOINTS))


def open_traces(variables: Mapping[str, str] | None = None, *, exporter: SpanExporter | None = None) -> Traces | None:
    """The traces of this process; None if no variable asks for them, or they cannot be sent, which is logged."""
    variables = os.environ if variables is None else variables
    if exporter is None and not is_configured(variables):
        return None
    try:
        exporter = exporter or _exporter(variables)
        return Traces(exporter, variables) if exporter is not None else None
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        logger.warning("OTEL_* variables are set, but no traces are sent: run pip install 'tabellion[otel]'")
        return None


def _exporter(variables: Mapping[str, str]) -> SpanExporter | None:
    name = variables.get(EXPORTER, "").strip().lower() or "otlp"
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    protocol = next((variables[variable] for variable in PROTOCOLS if variables.get(variable)), HTTP)
    if name != "otlp" or protocol != HTTP:
        wrong = f"{EXPORTER}={name}" if name != "otlp" else f"{PROTOCOLS[1]}={protocol}"
        logger.warning("no traces are sent: %s is not supported; use otlp with %s, or console", wrong, HTTP)
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _share_handlers() -> None:
    """Lets the SDK log where and how we do: lines of its own form would spoil a log in JSON."""
    ours, theirs = logging.getLogger("tabellion"), logging.getLogger("opentelemetry")
    if ours.handlers:
        theirs.handlers[:], theirs.propagate = ours.handlers, ours.propagate


class Traces:
    """Spans of this process. Their times are given: most are known only when they have ended."""

    def __init__(self, exporter: SpanExporter, variables: Mapping[str, str]) -> None:
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        _share_handlers()
        self._ids = _make_ids()
        self._provider = _provider(self._ids, variables)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("tabellion")
        self._starting = threading.Lock()  #: the ids of the next span are set for one at a time

    def start(
        self, subject: Subject, name: str, at: float, *, parent: int | None, id: int | None = None,  # noqa: A002
        kind: SpanKind = "internal", attributes: Attributes | None = None, links: Mapping[str, str] | None = None,
    ) -> Span:  # fmt: skip
        """Starts a span of a subject's trace; `parent` is the id of a span of the same trace, `links` the headers of a
        request with the trace that it belongs to."""
        from opentelemetry import trace

        facts = {"tabellion.environment": subject.environment, "tabellion.key": subject.key, **(attributes or {})}
        with self._starting:
            self._ids.trace_id, self._ids.span_id = subject.trace_id, id
            return self._tracer.start_span(
                name, self._context(subject, parent), trace.SpanKind[kind.upper()], facts, _links(links or {}),
                round(at * NANO),
            )  # fmt: skip

    def record(
        self, subject: Subject, name: str, at: float, until: float, *, is_error: bool = False, **options: Any
    ) -> None:
        """A span that has already ended."""
        self.end(self.start(subject, name, at, **options), until, is_error=is_error)

    def end(self, span: Span, at: float, *, is_error: bool = False) -> None:
        """Ends a span; the reason of an error is not sent: it may quote a document."""
        from opentelemetry.trace import StatusCode

        if is_error:
            span.set_status(StatusCode.ERROR)
        span.end(round(at * NANO))

    def new_id(self) -> int:
        """An id for a span that will be recorded later, but has children already."""
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        return RandomIdGenerator().generate_span_id()

    def close(self) -> None:
        """Sends what was not sent yet; the SDK would try longer, but a process that is told to end must end."""
        last = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        last.start()
        last.join(GOODBYE)

    def _context(self, subject: Subject, parent: int | None) -> Context:
        """The context of a span: that of its parent, which is sampled if the first span of its trace was."""
        from opentelemetry import trace
        from opentelemetry.context import Context
        from opentelemetry.sdk.trace.sampling import Decision

        if parent is None:
            return Context()
        result = self._provider.sampler.should_sample(Context(), subject.trace_id, "")
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if result.decision is Decision.RECORD_AND_SAMPLE else 0)
        remote = trace.SpanContext(subject.trace_id, parent, is_remote=True, trace_flags=flags)
        return trace.set_span_in_context(trace.NonRecordingSpan(remote), Context())


def _provider(ids: Any, variables: Mapping[str, str]) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    is_named = variables.get("OTEL_SERVICE_NAME") or "service.name=" in variables.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if is_named else {"service.name": SERVICE})
    return TracerProvider(id_generator=ids, resource=resource, shutdown_on_exit=False)


def _make_ids() -> Any:
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class SubjectIds(RandomIdGenerator):
        """Gives the next span the ids that were set for it."""

        trace_id: int | None = None
        span_id: int | None = None

        def generate_trace_id(self) -> int:
            return self.trace_id or super().generate_trace_id()

        def generate_span_id(self) -> int:
            return self.span_id or super().generate_span_id()

    return SubjectIds()


def _links(headers: Mapping[str, str]) -> list[Any]:
    if not headers:
        return []
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found = trace.get_current_span(TraceContextTextMapPropagator().extract(headers)).get_span_context()
    return [trace.Link(found)] if found.is_valid else []


_current: list[Traces] = []


def set_current(traces: Traces | None) -> None:
    """Makes these the traces of the process, or none."""
    _current[:] = [] if traces is None else [traces]


def current_traces() -> Traces | None:
    """The traces of this process; None if it sends none."""
    return _current[0] if _current else None
