"""A running application with the pipeline of websites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tabellion.pipelines.websites.pipeline import PIPELINE
from tabellion.pipelines.websites.settings import WebsiteSettings, settings_of
from tests.pipelines.websites.sites import visit_birch, work
from tests.web.live import Live


class LiveWebsites(Live):
    """The application of the tests, with websites instead of documents."""

    def website_settings(self, **changes: Any) -> WebsiteSettings:
        """Those of the application, with visits that need no network."""
        found = settings_of(self.config)
        options: dict[str, Any] = {"run_visit": visit_birch, "retry_base": 0.05} | changes
        return WebsiteSettings(**{**vars(found), **options})

    def work(self, environment: str = "prod", **changes: Any) -> None:
        """Works until nothing is left to do."""
        work(self.urls[environment], self.website_settings(**changes))

    def submit(self, url: str = "https://93.184.216.34/", role: str = "operator", **body: Any) -> Any:
        """Submits a website; an address that needs no name server."""
        return self.ask("POST", "/api/websites", key=self.key(role), json={"url": url, **body})


@contextmanager
def live_websites(folder: Path, urls: Mapping[str, str], **changes: Any) -> Iterator[LiveWebsites]:
    """The application, running within a block."""
    one = LiveWebsites(folder, urls, pipelines=[PIPELINE], **changes)
    try:
        one.start()
        yield one
    finally:
        one.stop()
