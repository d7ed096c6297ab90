"""The SLA targets of document types: the share of their reviews that are finished in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.monitor.sla.target import Target, TargetKind
from tabellion.pipelines.documents.review.queue import NAME
from tabellion.pipelines.documents.review.sla import DAY, DAYS
from tabellion.pipelines.documents.settings import Types
from tabellion.sla import check_known, read_limits

if TYPE_CHECKING:
    from tabellion.config import Config

KEY = "sla.types"
KINDS = {"reviewed": TargetKind("share", is_least=True)}


def targets_of(config: Config) -> list[Target]:
    """The target of every type in `[sla.types]`; raises if there is no such type."""
    limits = read_limits(config.section("sla").get("types", {}), KEY, KINDS)
    if limits:
        names = Types(config.types).names()
        for name in limits:
            check_known(name, names, f"{KEY}: unknown document type")
    return [_target(name, kind, limit) for name, kinds in limits.items() for kind, limit in kinds.items()]


def _target(name: str, kind: str, limit: float) -> Target:
    return Target("types", name, kind, KINDS[kind], limit, NAME, lambda store: measure_reviewed(store, name))


async def measure_reviewed(store: Store, name: str) -> float | None:
    """The share of a type's reviews that were finished in time, of those finished in seven days or overdue now."""
    if await store.table("tabellion_review_items") is None:
        return None
    d = store.dialect
    since = sql.later(repr(-float(DAYS * DAY)), d)
    [row] = await store.database.fetch(
        f"""SELECT count(*) AS due, count(CASE WHEN r.finished_at <= r.due_at THEN 1 END) AS kept
FROM tabellion_review_items AS r JOIN tabellion_documents AS t ON t.id = r.document_id
WHERE coalesce(t.found_type, t.type) = $1 AND (
  (r.finished_at >= {since} AND r.status IN ('approved', 'corrected', 'rejected'))
  OR (r.due_at < {NOW} AND r.status IN ('pending', 'in_review')))""",
        name,
    )
    return int(row["kept"]) / int(row["due"]) if row["due"] else None
