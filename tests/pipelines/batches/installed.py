"""An installation with batches: a fake model behind a gate, images on loopback, and ref files in its staging store."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabellion.models.fake.serving import Serving, serving
from tests.browser.installation import Installation, open_installation
from tests.pipelines.batches.material import Images, pi_of, serving_images


@dataclass(frozen=True)
class BatchInstallation:
    """One installation, its model and its images."""

    site: Installation
    fake: Serving
    images: Images

    def submit(self, id_: str, pis: Sequence[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """Stage the ref files of entities, and submit them as a batch."""
        self.stage(pis)
        return dict(self.site.api("POST", "/api/batches", {"batch_id": id_, "pis": list(pis), **options}))

    def stage(self, pis: Sequence[dict[str, Any]]) -> None:
        """Write the ref files of entities."""
        for pi in pis:
            for ref in pi["refs"]:
                file = self.site.service.data / "batches/staging" / ref["staging_key"]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps({"url": ref["cdn_url"]}))

    def pis(self, first: int, count: int, refs: int) -> list[dict[str, Any]]:
        """Return entities with images on loopback."""
        return [pi_of(self.images.url, number, refs) for number in range(first, first + count)]

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Do not answer requests for an image within a block."""
        self.images.held[f"/asset/{name}/medium"] = event = threading.Event()
        try:
            yield
        finally:
            event.set()

    def lose(self, *names: str) -> None:
        """Answer 404 for these images, in every variant."""
        for name in names:
            self.images.answers |= {f"/asset/{name}": [(404, b"")], f"/asset/{name}/medium": [(404, b"")]}


@contextmanager
def open_batches(folder: Path, *, gate: str = "rate = 100", **fake_settings: Any) -> Iterator[BatchInstallation]:
    """Run an installation with batches for the duration of a block; `gate`: settings of the model's gate."""
    with serving(**fake_settings) as fake, serving_images() as images:
        file = folder / "tabellion.toml"
        file.write_text(
            f"""[batches]
model = "openai"
[models.openai]
base_url = "{fake.environment["OPENAI_BASE_URL"]}"
model = "gpt-4o-mini"
key = "test"
[gates.openai]
{gate}
[server]
allow = ["127.0.0.0/8"]
"""
        )
        with open_installation(folder / "data", "--with", "batches", TABELLION_CONFIG=str(file)) as site:
            yield BatchInstallation(site, fake, images)
