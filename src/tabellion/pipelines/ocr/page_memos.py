"""What was read of a file's pages here, remembered by its content: a crash at page 12 of 40 costs one page."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from tabellion.engine.context import JobContext, asker_of
from tabellion.engine.job import Job
from tabellion.pipelines.ocr.page import PageText

VERSION = 1  #: of what a memo holds: raised when older ones must not be used any more
MODEL = "local"


@dataclass
class PageMemos:
    """The memos of one file. Pages that a model reads have theirs already: those of its calls."""

    job: Job
    sha256: str
    how: str  #: what else decides the text: how pages are read and mended
    lease: float
    count: int = 0  #: of pages, once it is known
    _mine: set[int] = field(default_factory=set)

    async def recall(self, number: int) -> PageText | None:
        """The page as it was read before; None where it is still to be read."""
        if self._context is None:
            return None
        memo = await self._context.recall(self._key(number), asker_of(self.job), MODEL, self.lease)
        if memo.reply is None:
            if memo.mine:
                self._mine.add(number)
            return None  # another job may be reading the same file: waiting for it would take as long
        said = json.loads(memo.reply)
        self.count = int(said.pop("count"))
        return PageText(**said)

    async def remember(self, page: PageText) -> None:
        """Keeps a page that was read; not one that failed, which may have been the machine's fault."""
        if self._context is None or page.source == "failed":
            return
        if page.number not in self._mine and await self.recall(page.number) is not None:
            return
        if page.number in self._mine:
            told = json.dumps(asdict(page) | {"count": self.count}, ensure_ascii=False)
            await self._context.remember(self._key(page.number), asker_of(self.job), told, 0.0)

    @property
    def _context(self) -> JobContext | None:
        return self.job.context

    def _key(self, number: int) -> str:
        return f"ocr/{VERSION}/{self.how}/{self.sha256}/{number}"
