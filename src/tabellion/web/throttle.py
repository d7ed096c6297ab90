"""Throttles sign-in attempts, counted by account and by address: after some, each must wait longer."""

from __future__ import annotations

import hashlib
import ipaddress
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from starlette.requests import Request

from tabellion.accounts import tables
from tabellion.engine import sql
from tabellion.engine.columns import columns_of
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.messages import Message
from tabellion.web.problems import Problem

FORGOTTEN = 3600.0  #: seconds without an attempt after which the count starts again
KEPT = 86_400.0  #: seconds after which a row is deleted
DOUBLINGS = 10  #: 1,024 seconds, beyond every limit here


class TriesRow(TypedDict):
    """A row of `tabellion_sign_in_tries`; times are seconds since 1970."""

    subject: str
    tries: int
    last_at: float
    closed_until: float


class _CurrentTries(TriesRow):
    now: float


@dataclass(frozen=True, slots=True)
class Measure:
    """The number of attempts without a wait, and the longest wait after them."""

    free: int
    longest: int  #: seconds


#: An attacker can slow down the owner of an account, but not lock them out: links are not counted.
ACCOUNT = Measure(5, 300)
#: Many people may share an address.
ADDRESS = Measure(20, 900)


def subjects(request: Request, name: str) -> tuple[tuple[str, Measure], ...]:
    """The subjects an attempt is counted under. Names are hashed: people type passwords into that field."""
    account = hashlib.sha256(name.strip().lower().encode("utf-8", "replace")).hexdigest()
    return (f"address:{address_of(request)}", ADDRESS), (f"account:{account}", ACCOUNT)


def address_of(request: Request) -> str:
    """The client's IPv4 address, or its /64 network for IPv6, where one household has billions of addresses.

    Behind a proxy of `server.proxies`, the last forwarded address that is not a proxy's: the client may have written
    those before it.
    """
    config = request.app.state.config
    networks = [ipaddress.ip_network(item) for item in config.proxies]
    address_text = request.client.host if request.client else ""
    if config.public_url:
        items = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
        forwarded = [_without_port(item.strip()) for item in items if item.strip()]
        while forwarded and _is_within(address_text, networks):
            address_text = forwarded.pop()
    try:
        address = ipaddress.ip_address(address_text)
    except ValueError:
        return "unknown"
    if address.version == 6:
        return str(ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)


def _without_port(text: str) -> str:
    """The address of `203.0.113.7:4711` or `[2001:db8::9]:4711`: some proxies add the client's port."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _is_within(text: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return any(address in network for network in networks)


async def admit(store: Store, counted: tuple[tuple[str, Measure], ...]) -> None:
    """Counts an attempt before it is made, so that concurrent ones all count; raises a Problem if it must wait."""
    await tables.SCHEMA.prepare(store)
    for subject, measure in counted:
        if not await _count_try(store, subject, measure):
            wait = max(1, math.ceil(await _remaining_wait(store, subject)))
            raise Problem(
                429, "too_many_tries", Message("problem.tries_wait", n=wait), fix=Message("fix.wait_or_link"),
                headers={"Retry-After": str(wait)}, wait=wait,
            )  # fmt: skip


async def forgive(store: Store, counted: tuple[tuple[str, Measure], ...]) -> None:
    """Undoes the counts of a successful attempt: all of the account, this one of the address."""
    (address, _), (account, _) = counted
    old = sql.later(repr(-KEPT), store.dialect)
    await store.database.transact(
        [
            (f"DELETE FROM tabellion_sign_in_tries WHERE subject = $1 OR last_at < {old}", (account,)),
            (
                f"UPDATE tabellion_sign_in_tries SET tries = tries - 1, closed_until = {NOW} "
                f"WHERE subject = $1 AND tries > 0",
                (address,),
            ),
        ]
    )


async def _count_try(store: Store, subject: str, measure: Measure) -> bool:
    d = store.dialect
    fresh = f"t.last_at < {sql.later(repr(-FORGOTTEN), d)}"
    more = f"t.tries + 1 - {measure.free}"
    doublings = f"CASE WHEN {more} > {DOUBLINGS} THEN {DOUBLINGS} ELSE {more} END"
    wait = f"CASE WHEN (1 << {doublings}) > {measure.longest} THEN {measure.longest} ELSE (1 << {doublings}) END"
    rows = await store.database.fetch(
        f"""INSERT INTO tabellion_sign_in_tries AS t (subject, tries, last_at, closed_until)
VALUES ($1, 1, {NOW}, {NOW})
ON CONFLICT (subject) DO UPDATE SET
  tries = CASE WHEN {fresh} THEN 1 ELSE t.tries + 1 END,
  last_at = {NOW},
  closed_until = CASE WHEN {fresh} OR {more} < 0 THEN {NOW} ELSE {sql.later(f"({wait})", d)} END
WHERE t.closed_until <= {NOW} RETURNING tries""",
        subject,
    )
    return bool(rows)


async def _remaining_wait(store: Store, subject: str) -> float:
    d = store.dialect
    rows: list[_CurrentTries] = await store.database.fetch(
        f"""SELECT {columns_of(TriesRow, "t", d)}, {sql.epoch(NOW, d)} AS now FROM tabellion_sign_in_tries AS t
WHERE t.subject = $1""",
        subject,
    )
    return rows[0]["closed_until"] - rows[0]["now"] if rows else 0.0
