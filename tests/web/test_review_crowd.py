"""Many reviewers at once over HTTP: the same promises as for direct calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tabellion import Store
from tabellion.pipelines.documents.review import errors, queue
from tabellion.pipelines.documents.review.editing import Change
from tests.pipelines.documents.review import checker, fifty
from tests.pipelines.documents.review.items import TEXT
from tests.web.live import Live, live

PEOPLE, ITEMS = 6, 24
#: The error that each problem stands for.
MEANT: dict[str, errors.ReviewError] = {
    "item_held": errors.ItemHeld("?", None), "not_held": errors.NotHeld(), "item_closed": errors.Closed("?", None),
    "item_assigned": errors.Assigned("?"), "item_escalated": errors.Escalated(), "item_open": errors.Open(),
    "version_conflict": errors.ItemChanged(0, {}), "review_gated": errors.NotApprovable([], []),
    "value_invalid": errors.InvalidValues({}),
    "role_required": errors.NotAllowed(),
}  # fmt: skip


class Remote:
    """Acts over HTTP, with its own key."""

    def __init__(self, client: httpx2.AsyncClient, url: str, name: str, key: str) -> None:
        self.client, self.url, self.headers = client, url, {"Authorization": f"Bearer {key}"}
        self.name, self.edits = name, 0

    async def ask(self, method: str, path: str, body: Any = None, version: int | None = None) -> Any:
        """Send one request; return its body, or raise the error that its problem means."""
        headers = self.headers | ({"If-Match": f'"{version}"'} if version is not None else {})
        answer = await self.client.request(method, f"{self.url}/api/review{path}", headers=headers, json=body)
        if answer.status_code >= 400:
            raise MEANT[answer.json()["code"]]
        return answer.json() if answer.content else None

    async def claim_next(self) -> str | None:
        """Claim the next item."""
        item = await self.ask("POST", "/claim", {})
        return item["id"] if item else None

    async def claim(self, item: str, takeover: bool) -> bool:
        """Claim this item; return whether it was not theirs before."""
        before = await self.ask("GET", f"/items/{item}")
        await self.ask("POST", f"/items/{item}/claim", {"takeover": takeover})
        return not (before["claim"] and before["claim"]["mine"])

    async def version(self, item: str) -> int:
        """Return the item's version."""
        return int((await self.ask("GET", f"/items/{item}"))["version"])

    async def edit(self, item: str, version: int, changes: dict[str, Change]) -> int:
        """Edit fields; return the new version.

        The answer is the item as it is by then, which another reviewer may have taken over and changed. So every
        edit has a unique value: one that is accepted created the version after the one it was based on.
        """
        self.edits += 1
        body = {"vendor": {"action": "correct", "value": f"{self.name}, edit {self.edits}"}} | {
            name: {"action": one.action} | ({"value": one.value} if one.action == "correct" else {})
            for name, one in changes.items()
        }
        answered = (await self.ask("PATCH", f"/items/{item}/fields", {"fields": body}, version))["version"]
        assert answered > version, "an accepted edit changed nothing"
        return version + 1

    async def approve(self, item: str, version: int) -> None:
        """Approve it, including unchecked fields."""
        await self.ask("POST", f"/items/{item}/approve", {"seconds": 1.0, "unseen": True}, version)

    async def verb(self, item: str, verb: str, **facts: Any) -> None:
        """Send any other action."""
        facts |= {"seconds": 1} if verb == "postpone" else {}
        await self.ask("POST", f"/items/{item}/{verb}", facts or None)


@pytest.mark.timeout(120)
def test_many_reviewers_over_http(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six keys on two dozen items: no item held by two, no edit lost, every action in the chain."""
    monkeypatch.setattr(queue, "LEASE", fifty.LEASE)
    folder = tmp_path / "types"
    folder.mkdir()
    (folder / "bill.yaml").write_text(TEXT)
    names = [f"p{number}" for number in range(PEOPLE)]
    with live(tmp_path, {"prod": url}, types=(str(folder),)) as web:
        world = asyncio.run(_crowd(web, url, tmp_path, names))
    report = checker.judge(world, needed=("claimed", "corrected", "approved", "refused ItemChanged"))
    assert report.clean, str(report)


async def _crowd(web: Live, url: str, folder: Path, names: list[str]) -> checker.World:
    async with Store(url, durable=False) as store:
        await fifty.fill(store, ITEMS, [])  # nothing is assigned: keys are not users
        keys = {name: await _key(store, name, number % 5 == 0) for number, name in enumerate(names)}
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:

        def hands_of(_: int, name: str, operates: bool) -> tuple[str, Remote]:
            return f"key:{name}", Remote(client, web.url, name, keys[name])

        await fifty.crowd(url, folder, names, 1, hands_of=hands_of)
    return await fifty.look(url, folder)


async def _key(store: Store, name: str, operates: bool) -> str:
    from tabellion.accounts import keys

    return (await keys.create(store, "prod", "operator" if operates else "reviewer", name))[1]
