"""The whole path over HTTP with a worker running: upload, watch, result, reprocess, delete; and invalid files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fpdf.enums import EncryptionMethod
from PIL import Image
from pydantic import create_model

from tabellion.config import Config
from tabellion.engine.environment import Environment
from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError
from tabellion.pipeline import Pipeline
from tabellion.pipelines.documents.pipeline import PIPELINE
from tabellion.pipelines.documents.queues import documents_queues
from tabellion.reading.limits import Limits
from tabellion.web.app import make_app, serve_environment
from tabellion.web.blueprint import Blueprint, NavItem
from tests.models.bills import bill
from tests.reading import papers
from tests.web.live import Live, problem
from tests.web.test_events import data, listening
from tests.workers import make_worker, working


@contextlib.contextmanager
def served(web: Live, **changes: Any) -> Iterator[None]:
    """A worker for the application's documents."""
    from dataclasses import replace

    settings = replace(web.settings(), retry_base=0.05, **changes)
    with working(make_worker(web.urls["prod"], *documents_queues(settings), concurrency=2)):
        yield


def test_a_document_from_upload_to_result(web_any: Live) -> None:
    """Queued, processing, completed, with fields, outputs and an image; a duplicate is marked; ready is reported."""
    with served(web_any):
        one = web_any.upload(bill(), data={"type": "invoice"})
        with listening(web_any, f"{one['status_url']}/events") as stream:
            next(stream)
            states = [data(event)["status"] for event in stream]
        assert states[-1] == "completed"
        document = web_any.get(f"{one['status_url']}?wait=30").json()
        assert (document["status"], document["type"], document["pages"]) == ("completed", "invoice", 1)
        field = document["fields"]["total"]
        assert 0 < field["confidence"] <= 1
        assert field["page"] == 1
        assert len(field["box"]) == 4
        for kind in ("json", "parquet"):
            assert (web_any.folder / "prod" / "lake" / document["outputs"][kind]).is_file()
        output = json.loads((web_any.folder / "prod" / "lake" / document["outputs"]["json"]).read_bytes())
        assert output["id"] == one["id"]
        double = web_any.upload(bill(), data={"type": "invoice"})
        assert web_any.get(f"{double['status_url']}?wait=30").json()["duplicate_of"] == one["id"]
        assert web_any.get(f"{double['status_url']}?wait=30").json()["status"] == "duplicate"
        assert web_any.get("/readyz", key=None).status_code == 200
        assert web_any.ask("POST", f"{one['status_url']}/reprocess").status_code == 202
        assert web_any.get(f"{one['status_url']}?wait=30").json()["status"] == "completed"
        assert web_any.get(f"{one['status_url']}/pages/1.png?width=200").status_code == 200
        for each in (double, one):
            assert web_any.ask("DELETE", each["status_url"]).status_code == 204
        assert not [path for path in (web_any.folder / "prod").rglob("*") if path.is_file() and path.name != ".lock"]


def animated() -> bytes:
    """An image with two frames."""
    frames = [papers.drawing(size=(300, 200)), papers.drawing(("Second",), size=(300, 200))]
    return papers.encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])


BOX = b"/MediaBox[0 0 300 200]"
EMPTY = b"%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
LAUNCH = b"6 0 obj<</S/Launch/F(/bin/sh)/Next<</S/JavaScript/JS(app.alert(1))>>>>endobj\n"
FILES: dict[str, tuple[bytes, str | None]] = {
    "encrypted": (papers.pdf(password="x"), "pdf_encrypted"),
    "damaged xref": (papers.pdf(("Damaged",)).replace(b"startxref\n", b"startxref\n9"), None),
    "truncated": (papers.pdf(("Cut",))[:250], "pdf_damaged"),
    "no pages": (EMPTY + b"trailer<</Root 1 0 R/Size 3>>\n%%EOF", "pdf_empty"),
    "too many pages": (papers.pdf(("Many",), pages=6), "too_many_pages"),
    "200 x 200 m": (papers.raw_pdf(b"/MediaBox[0 0 566929 566929]"), None),
    "actions": (papers.raw_pdf(BOX + b"/AA<</O 6 0 R>>", extra=LAUNCH), None),
    "embedded file": (papers.pdf_with_file("a.exe", b"MZ" * 100), None),
    "CMYK": (papers.encoded(Image.new("CMYK", (60, 40)), "JPEG"), None),
    "16 bit": (papers.encoded(Image.new("I;16", (60, 40), 65535)), None),
    "animated": (animated(), None),
    "1x1": (papers.encoded(Image.new("L", (1, 1), 255)), None),
    "blank": (papers.encoded(Image.new("L", (200, 200), 255)), None),
    "owner's password, RC4": (papers.pdf(("Locked", "one"), locked=EncryptionMethod.RC4), None),
    "owner's password, AES-128": (papers.pdf(("Locked", "two"), locked=EncryptionMethod.AES_128), None),
    "owner's password, AES-256": (papers.pdf(("Locked", "three"), locked=EncryptionMethod.AES_256), None),
    "60 nested forms": (papers.nested(60), None),
    "a header that says another height": (papers.taller(papers.encoded(papers.drawing(), "JPEG"), 2), None),
    "a header that says no height": (papers.taller(papers.encoded(papers.drawing(), "JPEG"), 0), "image_damaged"),
    "half a JPEG": (papers.encoded(Image.new("RGB", (64, 64)), "JPEG")[:200], "image_damaged"),
    "bomb": (papers.encoded(Image.new("1", (12_000, 12_000)), optimize=True), "image_too_large"),
}


#: What is reported for files that were read anyway: the code of an issue, or words of a note.
REPORTED = {
    "damaged xref": "damaged", "60 nested forms": "damaged", "a header that says another height": "damaged",
    "actions": "the PDF contains actions (JavaScript, Launch), which were ignored", "blank": "no text was found",
}  # fmt: skip


def test_invalid_files_end_with_a_reason(web: Live) -> None:
    """Each ends as completed or failed with its code, and the worker continues with the next."""
    ids = {name: web.upload(content, "file", "application/octet-stream")["id"] for name, (content, _) in FILES.items()}
    with served(web, limits=Limits(pages=5)):
        for name, (_, code) in FILES.items():
            document = web.get(f"/api/documents/{ids[name]}?wait=60").json()
            if code is None:
                assert document["status"] == "completed", (name, document["error"])
                reported = {*document["notes"], *(issue["code"] for issue in document["issues"])}
                assert name not in REPORTED or REPORTED[name] in reported, (name, reported)
            else:
                assert document["status"] == "failed", name
                assert document["error"]["code"] == code, (name, document["error"])
                assert document["error"]["message"]
        assert web.get("/readyz", key=None).status_code == 200
    answer = web.get(f"/api/documents/{ids['encrypted']}/pages/1.png")
    assert problem(answer, 422, "document_unreadable")["reason"] == "pdf_encrypted"


def test_two_environments_on_one_database_are_rejected(tmp_path: Path) -> None:
    """Two names for one database would open each to the other's keys."""
    url = f"sqlite:///{tmp_path}/p.db"
    config = Config(environments=(Environment("prod", url),), data=tmp_path)
    for name, message in (("dev", "share a database"), ("prod", "a unique name")):
        environments = [serve_environment(config, [PIPELINE], one, Store(url)) for one in ("prod", name)]
        with pytest.raises(ConfigurationError, match=message):
            make_app(config, environments, [PIPELINE])
    (tmp_path / "link.db").symlink_to(tmp_path / "p.db")
    stores = {"prod": Store(url), "dev": Store(f"sqlite:///{tmp_path}/link.db")}
    with pytest.raises(ConfigurationError, match="share a database"):
        make_app(config, [serve_environment(config, [PIPELINE], *one) for one in stores.items()], [PIPELINE])


@pytest.mark.parametrize(
    ("word", "icon", "code", "shape", "expected"),
    [
        ("base.nav_people", "truck", "too_large", "ParcelBody", r"/parcels has the unknown icon 'truck'; known: again"),
        ("parcels.nope", "file", "too_large", "ParcelBody", r"/parcels has the text 'parcels\.nope': no catalogue"),
        ("base.nav_people", "file", "parcel_lost", "ParcelBody", r"no catalogue has problem\.parcel_lost"),
        ("base.nav_people", "file", "too_large", "ProblemResponse",
         r"share a name \(tabellion\.web\.shapes\.ProblemResponse, tests\.web\.test_app\.ProblemResponse\)"),
    ],
)  # fmt: skip
def test_names_of_another_package_are_checked_at_the_start(
    tmp_path: Path, word: str, icon: str, code: str, shape: str, expected: str
) -> None:
    """Not at the first request that meets one that does not exist, or exists twice."""

    class Parcels(Pipeline):
        name = "parcels"

        def blueprint(self) -> Blueprint:
            body = create_model(shape, __module__=__name__, weight=int)
            return Blueprint(places=(NavItem("/parcels", word, icon),), problems=(code,), shapes=(body,))

    config, parcels = Config(data=tmp_path), Parcels()
    environments = [serve_environment(config, [parcels], "prod", Store(f"sqlite:///{tmp_path}/p.db"))]
    with pytest.raises(ConfigurationError, match=expected):
        make_app(config, environments, [parcels])
