"""A document through review, over HTTP: read, corrected by a person, written, reprocessed by a model, still locked."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion.accounts import audit
from tabellion.models.fake.serving import serving
from tabellion.testing import verify
from tests.cli.running import Service, running
from tests.models.bills import LINES, bill
from tests.pipelines.documents.receiver import Receiver
from tests.waiting import eventually
from tests.workers import ask

#: A total that does not add up, and two order numbers: the reader goes by one label, the fake model by the other.
PAPER = bill(*LINES[:6], "Total: 121.00", *LINES[7:], "PO number: 4711-X", "Purchase_order: PO-9")
SETTINGS = """
[environments]
prod = "{url}"
[models.gemini]
key = "k"
[gates.gemini]
rate = 200
min_rate = 200
max_rate = 200
"""


@pytest.fixture
def service(url: str, tmp_path: Path) -> Iterator[Service]:
    """A service with a model for its documents."""
    config = tmp_path / "tabellion.toml"
    config.write_text(SETTINGS.format(url=url))
    with serving() as fake:
        variables = fake.environment | {"TABELLION_CONFIG": str(config), "TABELLION_ALLOW": "127.0.0.0/8"}
        with running(tmp_path / "data", **variables) as one:
            yield one


def request(service: Service, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Return the answer, which must be a success."""
    content = None if body is None else json.dumps(body).encode()
    status, answer = service.ask(method, path, content, **{"Content-Type": "application/json"}, **headers)
    assert status < 300, answer
    return answer


def document(service: Service, id: str, but: Any = None) -> Any:  # noqa: A002
    """Return a document once it has ended with outputs other than these."""

    def look() -> Any:
        found = request(service, "GET", f"/api/documents/{id}?wait=30")
        return found if found["hashes"] != but else None

    return eventually(look, within=60)


def outputs(service: Service, found: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return JSON and Parquet; asserts their hashes."""
    collected = []
    for kind in ("json", "parquet"):
        content = (service.data / found["outputs"][kind]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == found["hashes"][kind]
        collected.append(content)
    [row] = pq.read_table(io.BytesIO(collected[1])).to_pylist()
    return json.loads(collected[0]), row


def field(item: Any, name: str) -> Any:
    """Return a field of an item."""
    return next(one for one in item["fields"] if one["name"] == name)


def edit_item(service: Service, item: Any, **changes: Any) -> Any:
    """Return the item after its holder changed fields."""
    match = {"If-Match": f'"{item["version"]}"'}
    return request(service, "PATCH", f"/api/review/items/{item['id']}/fields", {"fields": changes}, **match)


def approve_item(service: Service, item: Any) -> Any:
    """Return the item after its holder approved it."""
    match = {"If-Match": f'"{item["version"]}"'}
    return request(
        service, "POST", f"/api/review/items/{item['id']}/approve", {"seconds": 12.5, "unseen": True}, **match
    )["item"]


def test_a_document_goes_through_review(url: str, service: Service, receiver: Receiver, tmp_path: Path) -> None:
    """The correction is in every output and survives a reprocessing; the machine's value is shown beside it."""
    hook = request(service, "POST", "/api/webhooks", {"url": receiver.url, "events": ["document.reviewed"]})
    id = service.upload(PAPER, "bill.pdf", type="invoice")["id"]  # noqa: A001
    found = document(service, id)
    assert (found["status"], found["reviewed"], found["review"]["status"]) == ("completed", False, "pending")
    assert found["fields"]["purchase_order"]["value"] == "4711-X"

    # A box that is dragged over the page gives the words below it.
    words = request(service, "GET", f"/api/documents/{id}/pages/1/words")["words"]
    [[text, *box]] = [word for word in words if word[0] == "4711-X"]
    item = request(service, "POST", "/api/review/claim", {})
    assert (item["document_id"], item["status"]) == (id, "in_review")
    assert "PO-9" in [one["value"] for one in field(item, "purchase_order")["candidates"]]
    assert "2026-03-14" in [one["value"] for one in field(item, "due_date")["candidates"]]
    correction = {"action": "correct", "value": "4711-Y", "page": 1, "box": box, "quote": text}
    item = edit_item(service, item, purchase_order=correction, tax={"action": "confirm"})
    item = edit_item(service, item, total={"action": "correct", "value": "120.00"})
    assert approve_item(service, item)["status"] == "corrected"

    # The outputs have it, and so has whoever listens, exports or sends the file again.
    found = document(service, id, found["hashes"])
    result, row = outputs(service, found)
    assert (result["fields"]["purchase_order"]["value"], result["locked"]) == ("4711-Y", ["total", "purchase_order"])
    assert (row["purchase_order"], row["total"], row["locked"]) == ("4711-Y", 120, ["total", "purchase_order"])
    assert (row["reviewed"], row["verdict"]) == (True, "accept")
    assert (found["reviewed"], found["review"]["status"], found["verdict"]) == (True, "corrected", "accept")
    eventually(lambda: len(receiver.got) == 1, within=60)
    _, headers, content = receiver.got[0]
    news = verify(headers, content, hook["secret"])
    assert (news["type"], news["data"]["review"]["status"]) == ("document.reviewed", "corrected")
    assert news["data"]["fields"]["purchase_order"]["value"] == "4711-Y"
    assert news["data"]["hashes"] == found["hashes"]
    exported = subprocess.run(
        [sys.executable, "-m", "tabellion", "--config", str(tmp_path / "tabellion.toml"), "export", "--format",
         "jsonl"], capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(exported.stdout)["fields"]["purchase_order"]["value"] == "4711-Y"
    copy = document(service, service.upload(PAPER, "copy.pdf", type="invoice")["id"])
    assert (copy["status"], copy["fields"], copy["reviewed"]) == ("duplicate", found["fields"], True)

    # A model reads it again and says something else: the lock holds, and all three are told.
    request(service, "POST", f"/api/documents/{id}/reprocess", {"model": "gemini"})
    found = document(service, id)
    assert (found["status"], found["model"], found["reviewed"]) == ("completed", "gemini", True)
    assert (found["fields"]["purchase_order"]["value"], found["fields"]["purchase_order"]["locked"]) == ("4711-Y", True)
    assert outputs(service, found)[0]["fields"]["purchase_order"]["value"] == "4711-Y"
    item = request(service, "GET", f"/api/review/items/{item['id']}")
    assert item["status"] == "corrected"
    order = field(item, "purchase_order")
    assert order["three_way"] == {"human": "4711-Y", "old_model": "4711-X", "new_model": "PO-9"}
    offers = {one["value"]: one["from"] for one in order["candidates"]}
    assert (offers["PO-9"], offers["4711-X"]) == ("model", "words")

    # Asked to look again, the person gives the field back.
    request(service, "POST", f"/api/documents/{id}/reprocess", {"model": "gemini", "reopen": True})
    found = document(service, id)
    assert found["review"]["status"] == "pending"
    item = request(service, "POST", f"/api/review/items/{item['id']}/claim")
    item = edit_item(service, item, purchase_order={"action": "unlock"})
    assert approve_item(service, item)["status"] == "corrected"
    result, row = outputs(service, document(service, id, found["hashes"]))
    assert (row["purchase_order"], result["locked"], result["reviewed"]) == ("PO-9", ["total"], True)
    actions = [one["action"] for one in request(service, "GET", f"/api/documents/{id}/history")["entries"]]
    assert [one for one in actions if one not in ("assigned", "claimed")] == [
        "extracted", "created", "corrected", "confirmed", "corrected", "approved", "reprocessed", "extracted",
        "reprocessed", "reopened", "extracted", "unlocked", "approved",
    ]  # fmt: skip
    assert service.stop() == 0
    assert ask(url, audit.verify).whole
