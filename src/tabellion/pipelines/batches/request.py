"""What callers send: a chunk, and the entities of a batch, with every field checked."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import Field, field_validator

from tabellion.errors import TabellionError
from tabellion.messages import Message, quote_value
from tabellion.net.guard import Blocked, HostUnreachable, Rules, parse, vet_url
from tabellion.pipelines.batches.states import ID, LONGEST_ID
from tabellion.storage.lake import LONGEST_PART, check_path
from tabellion.web.validation import Strict

AT_ONCE = 500  #: URLs that are checked without letting other requests run
MOST_HOSTS = 20  #: of one request that are resolved before it is accepted
Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID, pattern=f"^{ID}$")]
Text = Annotated[str, Field(min_length=1, max_length=1000)]
Url = Annotated[str, Field(min_length=1, max_length=2048)]


class NewRef(Strict):
    """A ref: the file about one image of an entity."""

    filename: Text = Field(description="The name of its file, e.g. photo.jpg.ref.json.")
    staging_key: Text = Field(description="The path of its JSON file in the staging store.")
    cdn_url: Url = Field(description="The URL of its image.")

    @field_validator("staging_key")
    @classmethod
    def _check_key(cls, key: str) -> str:
        try:
            return check_path(key)
        except ValueError:
            raise ValueError(Message("batch.expected_path", n=LONGEST_PART)) from None


class NewPi(Strict):
    """An entity (PI) with its refs."""

    pi: Text
    current_tip: Text = Field(description="The CID of its newest version: the next one is appended to it.")
    refs: list[NewRef]


class NewChunk(Strict):
    """A chunk of a batch, as the orchestrator sends it."""

    batch_id: Id
    chunk_id: Id
    callback_url: Url = Field(description="Where the result of the chunk is sent.")
    pis: list[NewPi] = Field(min_length=1)


class NewBatch(Strict):
    """A whole batch, to be divided into chunks here."""

    batch_id: Id | None = Field(default=None, description="Its id. [default: derived from its content]")
    callback_url: Url | None = Field(default=None, description="Where the result of each chunk is sent.")
    chunk_size: int | None = Field(default=None, ge=1, le=1000, description="Entities of a chunk. [default: 10]")
    pis: list[NewPi] = Field(min_length=1)


class Contradiction(TabellionError):  # noqa: N818 - what it is
    """A name stands for two different things."""

    line: int | None = None  #: of a JSONL stream

    def __init__(self, field: str, message: Message) -> None:
        self.field = field
        super().__init__(message)


class UrlBlocked(TabellionError):  # noqa: N818 - a verdict
    """A URL of the request may not be requested."""

    line: int | None = None  #: of a JSONL stream

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(Message("batch.url_blocked", detail=reason))


def without_duplicates(pi: NewPi, field: str) -> tuple[NewPi, int]:
    """The entity with each ref once, and how many were repeated; raises Contradiction if two have one name or
    one file in the staging store."""
    known: dict[str, NewRef] = {}
    keys: dict[str, str] = {}
    for number, ref in enumerate(pi.refs):
        if known.setdefault(ref.filename, ref) != ref:
            raise Contradiction(f"{field}/refs/{number}", Message("batch.ref_twice", name=quote_value(ref.filename)))
        if keys.setdefault(ref.staging_key, ref.filename) != ref.filename:
            raise Contradiction(
                f"{field}/refs/{number}/staging_key", Message("batch.key_twice", name=quote_value(ref.staging_key))
            )
    repeated = len(pi.refs) - len(known)
    return (pi.model_copy(update={"refs": list(known.values())}), repeated) if repeated else (pi, 0)


def check_names(pis: Sequence[NewPi]) -> None:
    """Raises Contradiction if an entity is in a chunk twice."""
    known: set[str] = set()
    for number, pi in enumerate(pis):
        if pi.pi in known:
            raise Contradiction(f"/pis/{number}/pi", Message("batch.pi_twice", name=quote_value(pi.pi)))
        known.add(pi.pi)


class StagedImages:
    """The image of each file of the staging store in a request, on disk: a request may have millions.

    Two entities may share a file of one image. With two images, the text of one would replace the other's.
    """

    def __init__(self) -> None:
        self._known = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._known.execute("CREATE TABLE images (key BLOB PRIMARY KEY, url BLOB) WITHOUT ROWID")
        self._known.execute("BEGIN")  # never committed: a transaction for each row would take twice as long

    def __enter__(self) -> StagedImages:
        return self

    def __exit__(self, *_: object) -> None:
        self._known.close()

    def add(self, pi: NewPi, field: str) -> None:
        """Adds the refs of an entity; raises Contradiction if the file of one has another image."""
        for number, ref in enumerate(pi.refs):
            url = _digest(ref.cdn_url)
            [(known,)] = self._known.execute(
                "INSERT INTO images VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET url = url RETURNING url",
                (_digest(ref.staging_key), url),
            ).fetchall()
            if known != url:
                name = quote_value(ref.staging_key)
                raise Contradiction(f"{field}/refs/{number}/staging_key", Message("batch.key_of_two", name=name))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=12).digest()


class UrlChecks:
    """Checks the URLs of a request: the form of each, and the addresses of their hosts once each.

    A host that cannot be resolved now is accepted: every address is checked again when it is used.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._hosts: set[tuple[str, str, int]] = set()

    async def check(self, url: str, field: str) -> None:
        """Raises UrlBlocked if this URL may not be requested."""
        try:
            target = parse(url)
            host = (target.scheme, target.host, target.port)
            if host in self._hosts or (len(self._hosts) >= MOST_HOSTS and not _is_address(target.host)):
                return
            await vet_url(url, self._rules)
        except Blocked as error:
            raise UrlBlocked(field, error.reason) from None
        except HostUnreachable:
            pass
        self._hosts.add(host)

    async def check_refs(self, pis: Iterable[NewPi], first: int = 0) -> None:
        """Checks the images of entities; `first` is the number of the first one in the request."""
        for number, pi in enumerate(pis, first):
            for place, ref in enumerate(pi.refs):
                if place % AT_ONCE == AT_ONCE - 1:
                    await asyncio.sleep(0)  # a chunk may have hundreds of thousands, and other requests wait
                await self.check(ref.cdn_url, f"/pis/{number}/refs/{place}/cdn_url")
            await asyncio.sleep(0)


def _is_address(host: str) -> bool:
    """Whether a host is an IP address, which needs no name server."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def content_hash(value: Any) -> str:
    """The hash of a request's content: equal requests have equal hashes."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
