"""The batches pipeline: chunks of entities whose images are read under one gate, published and reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tabellion import extras
from tabellion.pipeline import Key, Pipeline

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.engine.retention import RetentionRule
    from tabellion.engine.schema import Schema
    from tabellion.engine.store import Store
    from tabellion.monitor.verify import Violation
    from tabellion.pipelines.batches.served import ServedBatches
    from tabellion.web.blueprint import Blueprint


class BatchesPipeline(Pipeline):
    """The plugin that `tabellion.pipelines` registers."""

    name = "batches"
    title = "Batches"
    extras = extras.SERVICE
    catalogues = ("tabellion.pipelines.batches",)
    events = ("batch.ended",)
    row_pages: Mapping[str, str] = {"batches": "/batches/{}"}
    commands: Mapping[str, str] = {
        "batch": "tabellion.pipelines.batches.commands.batch",
        "batches": "tabellion.pipelines.batches.commands.batches",
    }
    keys: Mapping[str, Key] = {
        "batches.model": (str, "the model that reads images (local)"),
        "batches.staging": (str, "the store of ref files: a folder, or s3://bucket/prefix (in the data folder)"),
        "batches.content": (
            str,
            "where results are published: a folder, s3://bucket/prefix, or ipfs+http://host:port (in the data folder)",
        ),
        "batches.secret": (str, "the secret that callers of /process send as a bearer token (none)"),
        "batches.networks": (
            list,
            "networks whose callers of /process need no secret if none is set, besides this machine (none)",
        ),
        "batches.orchestrators": (
            dict,
            '"https://host" = "whsec_…": secrets that sign callbacks, by origin; "*" is for those without an entry '
            "(one from the database)",
        ),
        "batches.chunk_size": (int, "entities of a chunk (10)"),
        "batches.retries_per_ref": (int, "retries of a ref after its first attempt; rate limits do not count (3)"),
        "batches.global_retries": (int, "retries of loading or publishing a chunk (5)"),
        "batches.most_failed": ((int, float), "the share of failed refs above which a chunk is an error (0.5)"),
        "batches.slots": (int, "refs that one worker reads at once (100)"),
        "batches.variant": (
            str,
            "the variant of /asset/ID images requested from the CDN; empty: none (medium)",
        ),
        "batches.unknown_tip": (
            str,
            'an entity whose tip is not in the content store: "reject" it, or "start" its versions here (reject with '
            "an IPFS node, else start)",
        ),
        "batches.image_bytes": (int, "bytes that an image may have (20000000)"),
        "batches.lease": ((int, float), "seconds after which the work of a dead worker is ready again (60)"),
        "batches.timeout": ((int, float), "seconds that one attempt may take (600)"),
        "batches.model_deadline": ((int, float), "seconds that one call of the model may take (120)"),
        "retention.batches": ((str, int), 'how long batches are kept after they were closed, e.g. "90d" (never)'),
    }
    zeros = ("batches.retries_per_ref", "batches.global_retries")
    variables: Mapping[str, str] = {
        "TABELLION_BATCHES_MODEL": "batches.model",
        "TABELLION_BATCHES_SECRET": "batches.secret",
        "TABELLION_BATCHES_STAGING": "batches.staging",
        "TABELLION_BATCHES_CONTENT": "batches.content",
        "TABELLION_RETENTION_BATCHES": "retention.batches",
        "OCR_CHUNK_SIZE": "batches.chunk_size",
        "MAX_RETRIES_PER_REF": "batches.retries_per_ref",
        "MAX_GLOBAL_RETRIES": "batches.global_retries",
    }

    def check(self, config: Config) -> None:
        """Rejects an unknown model, an invalid store and secrets that cannot work."""
        with extras.explain_missing(self.extras):
            from tabellion.pipelines.batches import settings

        settings.check(config)

    def schemas(self) -> Sequence[Schema]:
        """The tables of batches."""
        from tabellion.pipelines.batches import tables

        return (tables.SCHEMA,)

    def queues(self, config: Config, environment: Environment | None = None) -> Sequence[Queue]:
        """The phases of chunks, the refs, and the end of a batch."""
        with extras.explain_missing(self.extras):
            from tabellion.pipelines.batches.queues import batch_queues
            from tabellion.pipelines.batches.settings import settings_of

        others = {} if environment else {other.name: settings_of(config, other) for other in config.environments[1:]}
        return batch_queues(settings_of(config, environment), others)

    def retention(self, config: Config, environment: Environment) -> Sequence[RetentionRule]:
        """Batches that were closed."""
        from tabellion.pipelines.batches.retention import ClosedBatches

        return [ClosedBatches(config.keep(self.name))]

    async def verify(
        self, config: Config, environment: Environment, store: Store, *, files: int | None = 0
    ) -> Sequence[Violation]:
        """Histories of entities, chunks, and published files."""
        from tabellion.pipelines.batches.settings import settings_of
        from tabellion.pipelines.batches.verification import verify_batches

        content = settings_of(config, environment).content
        try:
            return await verify_batches(store, content, files=files)
        finally:
            await content.close()

    def blueprint(self) -> Blueprint:
        """The API, the pages and their texts."""
        from tabellion.pipelines.batches import api, pages
        from tabellion.pipelines.batches.states import REFS_QUEUE
        from tabellion.web.blueprint import Blueprint

        return Blueprint(
            routers=(*api.ROUTERS, *pages.ROUTERS), policy=api.POLICY, pages=pages.POLICY, places=pages.PLACES,
            shapes=api.SHAPES, problems=api.PROBLEMS, clashing=api.CLASHING, main_queue=REFS_QUEUE,
            package=__package__,
        )  # fmt: skip

    def serve(self, config: Config, environment: str, store: Store) -> ServedBatches:
        """The state of the web application for one environment."""
        from tabellion.pipelines.batches.served import serve

        return serve(config, environment, store)


PIPELINE = BatchesPipeline()
