"""Extractions in one environment that is served: its table, its files, pictures of their pages."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from starlette.requests import Request

from tabellion.config import Config
from tabellion.engine.store import Store
from tabellion.errors import Permanent
from tabellion.extractions.columns import ColumnChoice, column_choice
from tabellion.extractions.lookup import ExtractionTable
from tabellion.extractions.storage import ExtractionFiles, files_of
from tabellion.net.fetching import FetchFailed
from tabellion.storage.blobs import Blobs
from tabellion.storage.lake import LakeError
from tabellion.web.blueprint import PipelineHealth
from tabellion.web.page_images import Pictures, Space
from tabellion.web.problems import Problem

MOST_BYTES = 1 << 30  #: of copies of files that somebody looked at


@dataclass(slots=True)
class ServedExtractions:
    """What the routes of extractions need in one environment."""

    name: str
    store: Store
    files: ExtractionFiles
    choice: ColumnChoice
    folder: Path  #: for copies of files, and for what is being uploaded
    pictures: Pictures = field(init=False)
    uploads: Blobs = field(init=False)
    _copies: Space = field(init=False)

    def __post_init__(self) -> None:
        self.pictures = Pictures(self.folder / "pictures")
        self.uploads = Blobs(self.folder / "uploads")
        self._copies = Space(self.folder / "files", MOST_BYTES)

    async def table(self) -> ExtractionTable:
        """The table as it is now: its owner may change it at any time."""
        return await ExtractionTable.open(self.store, self.choice)

    async def open_file(self, address: str, version: str) -> tuple[Path, str]:
        """A copy of the file at an address on this machine, and the name that its pictures are kept under."""
        name = hashlib.sha256(f"{address}\n{version}".encode()).hexdigest()
        path = self._copies.folder / name[:2] / name
        if await asyncio.to_thread(path.is_file):
            await asyncio.to_thread(path.touch)
            return path, name
        try:
            with tempfile.TemporaryDirectory(prefix="extraction-") as folder:
                came = await self.files.download(address, Path(folder))
                await asyncio.to_thread(self._copies.keep, path, await asyncio.to_thread(came.read_bytes))
        except Permanent as error:
            raise Problem(404, "file_gone", str(error)) from None
        except (FetchFailed, LakeError, OSError) as error:
            raise Problem(404, "file_gone", str(error), fix="try again later") from None
        return path, name

    async def health(self) -> PipelineHealth:
        """Nothing beyond its database."""
        return PipelineHealth()

    def titles(self) -> Mapping[str, str]:
        """None of its own."""
        return {}

    async def close(self) -> None:
        """Ends the drawing of pages."""
        await self.pictures.close()


def serve(config: Config, environment: str, store: Store) -> ServedExtractions:
    """For `Pipeline.serve` of every pipeline on the table."""
    place = next((one for one in config.environments if one.name == environment), None)
    below = config.data if place is None or place == config.environments[0] else config.data / place.name
    return ServedExtractions(
        environment, store, files_of(config, place), column_choice(config), below / "extractions-seen"
    )


def served_extractions(request: Request) -> ServedExtractions:
    """Extractions in the environment of this request, whichever of its pipelines serves them."""
    served = request.state.environment.served.values()
    return next(one for one in served if isinstance(one, ServedExtractions))
