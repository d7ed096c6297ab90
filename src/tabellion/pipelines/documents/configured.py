"""Documents as configured: where files are stored, which models read them, their queues and gates."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from tabellion.config import Config, model, model_gates
from tabellion.engine.gates.state import GateSettings
from tabellion.errors import ConfigurationError
from tabellion.monitor.view import QueueView
from tabellion.pipelines.documents.settings import LOCAL, Settings, Types
from tabellion.pipelines.documents.webhooks import document_outbox
from tabellion.storage.configured_blobs import open_blobs
from tabellion.storage.lake import Lake

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue


def settings_of(config: Config, environment: Environment | None = None) -> Settings:
    """The configured settings of documents in this environment (default: the first).

    A file is deleted when no document of its database has it, so each database has its own folders: the first one uses
    the data folder and the lake themselves, every other a folder of its name in them.
    """
    section = config.section("documents")
    subfolder = environment.name if environment is not None and environment != config.environments[0] else None
    return Settings(
        blobs=open_blobs(config.blobs, config.data, f"{subfolder}/blobs" if subfolder else "blobs", config.cache_bytes),
        lake=Lake(f"{config.lake.rstrip('/')}/{subfolder}" if subfolder else config.lake),
        types=Types(config.types),
        model=functools.partial(model, config=config),
        models=model_gates(config),
        default_model=_default_model(config),
        outbox=document_outbox,
        sla=float(section.get("sla", Settings.sla)),
        ocr=section.get("ocr", Settings.ocr),
        timeout=float(section.get("timeout", Settings.timeout)),
        model_deadline=float(section.get("model_deadline", Settings.model_deadline)),
        pages_sent=section.get("pages_sent", Settings.pages_sent),
    )


def _default_model(config: Config) -> str:
    """The model that reads a document for which none was chosen; raises if there is no such model."""
    name, known = config.section("documents").get("model", LOCAL), [LOCAL, *model_gates(config)]
    if name not in known:
        raise ConfigurationError(f"documents.model: unknown model {name!r}; known: {', '.join(known)}")
    return str(name)


def queues_of(config: Config, environment: Environment | None = None) -> list[Queue]:
    """Every queue of documents with its handler, for all environments or for one."""
    from tabellion.pipelines.documents.queues import documents_queues

    others = {} if environment else {other.name: settings_of(config, other) for other in config.environments[1:]}
    return documents_queues(settings_of(config, environment), others)


def views_of(settings: Settings) -> list[QueueView]:
    """The queues as people see them: one for each model, then review, then the follow-up queues."""
    from tabellion.pipelines.documents.queues import CHORES, documents_queues
    from tabellion.pipelines.documents.review.queue import ENDINGS, review_queue

    pages = {"tabellion_documents": "/documents/{}"}
    views = [
        QueueView(queue, chore=queue.name in CHORES, page=pages.get(queue.table))
        for queue in documents_queues(settings)
    ]
    endings = tuple(review_queue(ending) for ending in ENDINGS)
    review = QueueView(review_queue(), people=True, endings=endings, page="/review/{}")
    reading = len(settings.gates())
    return [*views[:reading], review, *views[reading:]]


def gates_of(config: Config) -> dict[str, GateSettings]:
    """Settings of gates that the configuration does not set: the strictest of the types that name their model."""
    gates = model_gates(config)
    strictest: dict[str, GateSettings] = {}
    for doctype in Types(config.types).all():
        gate = gates.get(doctype.processing.model or config.section("documents").get("model", ""))
        if gate is None or gate in config.gates:
            continue
        rules, current = doctype.processing, strictest.get(gate, GateSettings(threshold=sys.maxsize, recovery=1e-9))
        strictest[gate] = GateSettings(
            threshold=min(rules.failure_threshold, current.threshold),
            recovery=max(rules.recovery_timeout, current.recovery),
        )
    return strictest
