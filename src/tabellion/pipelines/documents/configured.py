"""Documents as they are configured: where their files lie, what reads them, their queues and gates."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from tabellion.config import Config, model, model_gates
from tabellion.delivery.outbox import outbox
from tabellion.engine.gates.state import GateSettings
from tabellion.errors import ConfigurationError
from tabellion.monitor.view import QueueView
from tabellion.pipelines.documents.settings import LOCAL, Settings, Types
from tabellion.storage.blobs import Blobs
from tabellion.storage.lake import Lake

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue


def settings_of(config: Config, environment: Environment | None = None) -> Settings:
    """What the configuration says of documents, for this environment (the first).

    A file goes when no document of its database has it, so each database has folders of its own: the first has the data
    folder and the lake themselves, every other a folder of its name in them.
    """
    said = config.section("documents")
    below = environment.name if environment is not None and environment != config.environments[0] else None
    return Settings(
        blobs=Blobs((config.data / below if below else config.data) / "blobs"),
        lake=Lake(f"{config.lake.rstrip('/')}/{below}" if below else config.lake),
        types=Types(config.types),
        model=functools.partial(model, config=config),
        models=model_gates(config),
        default_model=_default_model(config),
        outbox=outbox,
        sla=float(said.get("sla", Settings.sla)),
        ocr=said.get("ocr", Settings.ocr),
        timeout=float(said.get("timeout", Settings.timeout)),
        model_deadline=float(said.get("model_deadline", Settings.model_deadline)),
        pages_sent=said.get("pages_sent", Settings.pages_sent),
    )


def _default_model(config: Config) -> str:
    """The model that reads what nobody chose one for; refused where there is no such model."""
    name, known = config.section("documents").get("model", LOCAL), [LOCAL, *model_gates(config)]
    if name not in known:
        raise ConfigurationError(f"documents.model: unknown model {name!r}; known: {', '.join(known)}")
    return str(name)


def check_types(config: Config) -> None:
    """Refuses to start with a document type that has a mistake: found out later, it costs more."""
    Types(config.types).check()


def queues_of(config: Config, environment: Environment | None = None) -> list[Queue]:
    """Every queue of documents with its handler, for all environments or for one."""
    from tabellion.pipelines.documents.queues import documents_queues

    others = {} if environment else {one.name: settings_of(config, one) for one in config.environments[1:]}
    return documents_queues(settings_of(config, environment), others)


def views_of(settings: Settings) -> list[QueueView]:
    """The same as people look at them: one for each model, then review, then what is done beside."""
    from tabellion.pipelines.documents.queues import CHORES, documents_queues
    from tabellion.pipelines.documents.review.queue import ENDINGS, review_queue

    pages = {"tabellion_documents": "/documents/{}"}
    views = [QueueView(one, chore=one.name in CHORES, page=pages.get(one.table)) for one in documents_queues(settings)]
    endings = tuple(review_queue(ending) for ending in ENDINGS)
    review = QueueView(review_queue(), people=True, endings=endings, page="/review/{}")
    reading = len(settings.gates())
    return [*views[:reading], review, *views[reading:]]


def gates_of(config: Config) -> dict[str, GateSettings]:
    """How gates behave that the configuration says nothing of: as the strictest of the types that name their model."""
    gates = model_gates(config)
    strictest: dict[str, GateSettings] = {}
    for doctype in Types(config.types).all():
        gate = gates.get(doctype.processing.model or config.section("documents").get("model", ""))
        if gate is None or gate in config.gates:
            continue
        rules, before = doctype.processing, strictest.get(gate, GateSettings(threshold=sys.maxsize, recovery=1e-9))
        strictest[gate] = GateSettings(
            threshold=min(rules.failure_threshold, before.threshold),
            recovery=max(rules.recovery_timeout, before.recovery),
        )
    return strictest
