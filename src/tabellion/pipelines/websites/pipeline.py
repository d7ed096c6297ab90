"""The websites pipeline: a site is visited, put into a prompt, and analysed by models."""

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
    from tabellion.monitor.metrics.metric import MetricSource
    from tabellion.monitor.verify import Violation
    from tabellion.pipelines.websites.served import ServedWebsites
    from tabellion.web.blueprint import Blueprint


class WebsitesPipeline(Pipeline):
    """The plugin that `tabellion.pipelines` registers."""

    name = "websites"
    title = "Websites"
    extras = f"{extras.SERVICE},websites"
    catalogues = ("tabellion.pipelines.websites", "tabellion.pipelines.websites.site")
    row_pages: Mapping[str, str] = {"website_jobs": "/websites/{}"}
    commands: Mapping[str, str] = {
        "website": "tabellion.pipelines.websites.commands.website",
        "analyses": "tabellion.pipelines.websites.commands.analyses",
    }
    keys: Mapping[str, Key] = {
        "websites.type": (str, "the analysis type of a job that names none (profile)"),
        "websites.types": (list, 'folders with analysis types of your own (["analyses"])'),
        "websites.model": (str, "the model that is asked if neither the job nor its type names one (local)"),
        "websites.model_deadline": ((int, float), "seconds that one call of a model may take (120)"),
        "websites.visit_slots": (int, "websites that one worker visits at once (10)"),
        "websites.prompt_slots": (int, "prompts that one worker forms at once (10)"),
        "websites.model_slots": (int, "models that one worker asks at once (10)"),
        "websites.backlog": (int, "jobs that may wait for their visit; beyond them, submissions are rejected (1000)"),
        "websites.retries": (int, "retries in each phase, after its first attempt (3)"),
        "websites.lease": ((int, float), "seconds after which the job of a dead worker is ready again (60)"),
        "websites.timeout": ((int, float), "seconds that one attempt at a phase may take (300)"),
        "websites.per_cycle": (int, "jobs of one phase that a worker starts per cycle, e.g. 3 (no limit)"),
        "websites.cycle": ((int, float), "seconds of such a cycle (5)"),
        "websites.scan_limit": (int, "jobs of one phase that a worker takes per scan interval, e.g. 10 (no limit)"),
        "websites.scan_interval": ((int, float), "seconds of a scan interval, e.g. 60 (none: jobs start at once)"),
        "websites.pages": (int, "pages of a site that are read, with its home page (5)"),
        "websites.pause": ((int, float), "seconds between two requests to the same host (1)"),
        "websites.browser": (
            str,
            "whether pages are read in a browser: auto (if they need scripts), always, never (auto)",
        ),
        "websites.screenshots": (bool, "whether a screenshot is taken, if there is a browser (true)"),
        "websites.robots": (bool, "whether robots.txt is respected (true)"),
        "retention.websites": ((str, int), 'how long jobs are kept after they have ended, e.g. "1y"; "never" (never)'),
        "websites.user_agent": (str, "the name that sites see in their logs"),
    }
    choices: Mapping[str, Sequence[str]] = {"websites.browser": ("auto", "always", "never")}
    variables: Mapping[str, str] = {
        "TABELLION_WEBSITES_MODEL": "websites.model",
        "TABELLION_WEBSITES_TYPES": "websites.types",
        "TABELLION_RETENTION_WEBSITES": "retention.websites",
        "TABELLION_WEBSITES_BACKLOG": "websites.backlog",
    }

    def check(self, config: Config) -> None:
        """Rejects missing packages, an invalid analysis type, an unknown model and throttles that are set by half."""
        with extras.explain_missing(self.extras):
            from tabellion.pipelines.websites.settings import settings_of
            from tabellion.pipelines.websites.site import check_installed

        check_installed()
        settings_of(config).check_types()

    def schemas(self) -> Sequence[Schema]:
        """The tables of jobs and analyses."""
        from tabellion.pipelines.websites import tables

        return (tables.SCHEMA,)

    def queues(self, config: Config, environment: Environment | None = None) -> Sequence[Queue]:
        """The three phases and the queue of several models."""
        with extras.explain_missing(self.extras):
            from tabellion.pipelines.websites.queues import website_queues
            from tabellion.pipelines.websites.settings import settings_of

        others = {} if environment else {other.name: settings_of(config, other) for other in config.environments[1:]}
        return website_queues(settings_of(config, environment), others)

    def retention(self, config: Config, environment: Environment) -> Sequence[RetentionRule]:
        """Jobs that have ended, with their files."""
        from tabellion.pipelines.websites.retention import JobsRule
        from tabellion.pipelines.websites.settings import settings_of

        return (JobsRule(settings_of(config, environment).blobs, config.keep("websites")),)

    def metrics(self, config: Config, environment: Environment | None = None) -> MetricSource:
        """Slots, attempts, retries and times of each phase."""
        from tabellion.pipelines.websites.metrics import metrics_of
        from tabellion.pipelines.websites.settings import settings_of

        return metrics_of(settings_of(config, environment))

    async def verify(
        self, config: Config, environment: Environment, store: Store, *, files: int | None = 0
    ) -> Sequence[Violation]:
        """Analyses of jobs, and files."""
        from tabellion.pipelines.websites.settings import settings_of
        from tabellion.pipelines.websites.verification import verify_websites

        return await verify_websites(store, settings_of(config, environment).blobs, files=files)

    def blueprint(self) -> Blueprint:
        """The API, the pages and their texts."""
        from tabellion.pipelines.websites import api, pages
        from tabellion.pipelines.websites.states import INFO
        from tabellion.web.blueprint import Blueprint

        return Blueprint(
            routers=(*api.ROUTERS, *pages.ROUTERS), policy=api.POLICY, pages=pages.POLICY, places=pages.PLACES,
            shapes=api.SHAPES, problems=api.PROBLEMS, repeatable=api.REPEATABLE, clashing=api.CLASHING,
            main_queue=INFO.queue, package=__package__,
        )  # fmt: skip

    def serve(self, config: Config, environment: str, store: Store) -> ServedWebsites:
        """The state of the web application for one environment."""
        from tabellion.pipelines.websites.served import serve

        return serve(config, environment, store)


PIPELINE = WebsitesPipeline()
