"""The document pipeline as it is configured: where its files lie, what reads them, and its queues."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from tabellion.config import Config, model, model_gates
from tabellion.delivery.outbox import outbox, webhooks_queue
from tabellion.engine.gates.state import GateSettings
from tabellion.errors import ConfigurationError
from tabellion.net.guard import Rules
from tabellion.pipelines.documents.settings import LOCAL, Settings, Types
from tabellion.storage.blobs import Blobs
from tabellion.storage.lake import Lake

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.reading.sandbox import Sandbox


def settings_of(config: Config, environment: Environment | None = None, sandbox: Sandbox | None = None) -> Settings:
    """What the configuration says of documents, for this environment (the first).

    A file goes when no document of its database has it, so each database has folders of its own: the first has the data
    folder and the lake themselves, every other a folder of its name in them.
    """
    said = config.documents
    below = environment.name if environment is not None and environment != config.environments[0] else None
    return Settings(
        blobs=Blobs((config.data / below if below else config.data) / "blobs"),
        lake=Lake(f"{config.lake.rstrip('/')}/{below}" if below else config.lake),
        types=Types(config.types),
        model=functools.partial(model, config=config),
        models=model_gates(config),
        default_model=_default_model(config),
        outbox=outbox,
        sandbox=sandbox,
        sla=float(said.get("sla", Settings.sla)),
        ocr=said.get("ocr", Settings.ocr),
        timeout=float(said.get("timeout", Settings.timeout)),
        model_deadline=float(said.get("model_deadline", Settings.model_deadline)),
        pages_sent=said.get("pages_sent", Settings.pages_sent),
    )


def _default_model(config: Config) -> str:
    """The model that reads what nobody chose one for; refused where there is no such model."""
    name, known = config.documents.get("model", LOCAL), [LOCAL, *model_gates(config)]
    if name not in known:
        raise ConfigurationError(f"documents.model: there is no model {name!r}; there are {', '.join(known)}")
    return str(name)


def check_types(config: Config) -> None:
    """Refuses to start with a document type that has a mistake: found out later, it costs more."""
    Types(config.types).check()


def queues_of(config: Config, settings: Settings | None = None) -> list[Queue]:
    """Every queue that the document service works, with its handler; `settings`: for one environment alone."""
    from tabellion.pipelines.documents.queues import documents_queues

    others = {} if settings else {one.name: settings_of(config, one) for one in config.environments[1:]}
    queues = documents_queues(settings or settings_of(config), others)
    return [*queues, webhooks_queue(Rules.of(config.allow))]


def gates_of(config: Config) -> dict[str, GateSettings]:
    """How gates behave: as the configuration says, else as the strictest of the types that name their model."""
    gates = model_gates(config)
    strictest: dict[str, GateSettings] = {}
    for doctype in Types(config.types).all():
        gate = gates.get(doctype.processing.model or config.documents.get("model", ""))
        if gate is None or gate in config.gates:
            continue
        rules, before = doctype.processing, strictest.get(gate, GateSettings(threshold=sys.maxsize, recovery=1e-9))
        strictest[gate] = GateSettings(
            threshold=min(rules.failure_threshold, before.threshold),
            recovery=max(rules.recovery_timeout, before.recovery),
        )
    return {**strictest, **config.gates}


def watched(config: Config, settings: Settings) -> list[Queue]:
    """Every queue that can be looked at: those of the document service, and those of the user's own module."""
    from tabellion.cli.queue_module import declared_queues
    from tabellion.monitor.declared import document_queues, together

    own = declared_queues(config.queues) if config.queues is not None else []
    return together(document_queues(settings), own)
