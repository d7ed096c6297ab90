"""The state that the web application holds for extractions: the table, files and page images of an environment."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from starlette.requests import Request

from tabellion.config import Config
from tabellion.engine.store import Store
from tabellion.errors import Permanent
from tabellion.extractions.columns import ColumnChoice, column_choice
from tabellion.extractions.lookup import ExtractionTable
from tabellion.extractions.storage import DownloadFailed, ExtractionFiles, files_of
from tabellion.messages import Message
from tabellion.storage.blobs import Blobs
from tabellion.storage.lake import LakeError
from tabellion.web.blueprint import Served
from tabellion.web.page_images import Pictures, Space
from tabellion.web.problems import Problem

MOST_BYTES = 1 << 30  #: of cached copies of files that were viewed


@dataclass(slots=True)
class ServedExtractions(Served):
    """What the routes of extractions need in one environment."""

    name: str
    store: Store
    files: ExtractionFiles
    choice: ColumnChoice
    folder: Path  #: for cached copies and uploads
    pictures: Pictures = field(init=False)
    uploads: Blobs = field(init=False)
    _copies: Space = field(init=False)

    def __post_init__(self) -> None:
        self.pictures = Pictures(self.folder / "pictures")
        self.uploads = Blobs(self.folder / "uploads")
        self._copies = Space(self.folder / "files", MOST_BYTES)

    async def table(self) -> ExtractionTable:
        """The table, inspected anew: its owner may change it at any time."""
        return await ExtractionTable.open(self.store, self.choice)

    async def open_file(self, address: str, version: str) -> tuple[Path, str]:
        """A local copy of the file at an address, and the name under which its page images are cached."""
        name = hashlib.sha256(f"{address}\n{version}".encode()).hexdigest()
        path = self._copies.folder / name[:2] / name
        if await asyncio.to_thread(path.is_file):
            await asyncio.to_thread(path.touch)
            return path, name
        try:
            with tempfile.TemporaryDirectory(prefix="extraction-") as folder:
                file = await self.files.download(address, Path(folder))
                await asyncio.to_thread(self._copies.keep, path, await asyncio.to_thread(file.read_bytes))
        except Permanent as error:
            raise Problem(404, "file_gone", str(error)) from None
        except (DownloadFailed, LakeError, OSError) as error:
            # The text of an OSError has the path of the server's file.
            reason = error.strerror or type(error).__name__ if isinstance(error, OSError) else ""
            detail = Message("unreadable.cannot_open", text=reason) if reason else str(error)
            raise Problem(404, "file_gone", detail, fix=Message("fix.try_later")) from None
        return path, name

    async def close(self) -> None:
        """Stops rendering page images."""
        await self.pictures.close()


def serve(config: Config, environment: str, store: Store) -> ServedExtractions:
    """The implementation of `Pipeline.serve` for every pipeline on the table."""
    place = next((known for known in config.environments if known.name == environment), None)
    seen = config.folder_of(place) / "extractions-seen"
    return ServedExtractions(environment, store, files_of(config, place), column_choice(config), seen)


def served_extractions(request: Request) -> ServedExtractions:
    """The extractions of the request's environment, whichever pipeline serves them."""
    served = request.state.environment.served.values()
    return next(state for state in served if isinstance(state, ServedExtractions))
