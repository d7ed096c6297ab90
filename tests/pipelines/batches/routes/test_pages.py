"""The pages of batches over HTTP: roles, unknown batches, languages, and texts of others, which are escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.pipelines.batches import pages
from tabellion.pipelines.batches.pipeline import PIPELINE
from tests.pipelines.batches.material import pi_of
from tests.web.live import Live, live

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&.png.ref.json"


@pytest.fixture
def web(tmp_path: Path, url: str) -> Iterator[Live]:
    """An application with batches for each test."""
    with live(tmp_path, {"prod": url}, pipelines=[PIPELINE]) as one:
        yield one


def add(web: Live, batch: str = "b1", filename: str | None = None) -> None:
    """Submit a batch of two entities."""
    pis = [pi_of("http://127.0.0.1:9", number) for number in range(2)]
    if filename is not None:
        pis[0]["refs"][0]["filename"] = filename
    answer = web.ask("POST", "/api/batches", json={"batch_id": batch, "chunk_size": 1, "pis": pis})
    assert answer.status_code == 202, answer.text


def test_a_viewer_sees_pages_without_actions(web: Live) -> None:
    """The form and the buttons are for operators; without a key, the pages lead to the sign-in."""
    add(web)
    for path, control in (("/batches", 'id="batch-form"'), ("/batches/b1", 'id="retry"')):
        seen, usable = (web.get(path, key=web.key(role)) for role in ("viewer", "operator"))
        assert (seen.status_code, usable.status_code) == (200, 200)
        assert control not in seen.text
        assert control in usable.text
        stranger = web.get(path, key=None)
        assert stranger.status_code == 303
        assert stranger.headers["location"].startswith("/sign-in")


def test_an_unknown_batch_is_not_found(web: Live) -> None:
    """Whatever its id; nothing of the id is repeated as markup."""
    for id_ in ("b2", "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "%00", "..%2F..", "x" * 500):
        answer = web.get(f"/batches/{id_}")
        assert answer.status_code in (400, 404, 422), id_
        assert "<script>alert" not in answer.text


def test_the_page_of_a_batch_names_its_queues_and_chunks(web: Live) -> None:
    """In both languages; its script gets the batch."""
    add(web)
    english = web.get("/batches/b1", headers={"Accept-Language": "en"})
    french = web.get("/batches/b1", headers={"Accept-Language": "fr"})
    assert 'href="/queues/batch-refs"' in english.text
    assert "About this batch" in english.text
    assert "À propos de ce lot" in french.text
    data = json.loads(english.text.split('id="data">', 1)[1].split("</script>", 1)[0])
    assert data["batch"]["total_chunks"] == 2
    assert data["gate"] is None


def test_texts_of_others_are_escaped(web: Live) -> None:
    """A file name, a submitter or an error is never markup."""
    add(web, filename=HOSTILE)
    web.sql("UPDATE batches SET submitted_by = $1", HOSTILE)
    web.sql("UPDATE batch_refs SET status = 'error', error = $1 WHERE filename = $1", HOSTILE)
    answer = web.get("/batches/b1")
    assert answer.status_code == 200
    assert "<img src=x" not in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    [error] = web.get("/api/batches/b1/errors").json()["errors"]
    assert error["examples"][0]["filename"] == HOSTILE
    assert error["refs"] == 1


def test_errors_that_differ_in_numbers_are_one(web: Live) -> None:
    """Each with the most frequent text and some of its refs."""
    add(web)
    rows = web.sql("SELECT id, filename FROM batch_refs ORDER BY id")
    for number, row in enumerate(rows[:4]):
        text = f"the staging store has no file refs/{number}-1.png.ref.json" if number < 3 else "something else"
        web.sql("UPDATE batch_refs SET status = 'error', error = $1 WHERE id = $2", text, row["id"])
    errors = web.get("/api/batches/b1/errors").json()["errors"]
    assert [error["refs"] for error in errors] == [3, 1]
    assert len(errors[0]["examples"]) == 3


def test_a_chunk_with_an_entity_that_was_not_published_can_be_retried(web: Live) -> None:
    """Its refs were all read: the chunk says how many entities failed, and why."""
    add(web)
    web.sql("UPDATE batch_chunks SET phase = 'DONE'")
    web.sql("UPDATE batch_refs SET status = 'done', result_cid = CASE WHEN filename LIKE '0-%' THEN 'bafk' END")
    web.sql("UPDATE batch_pis SET entity_error = 'the tip is not known' WHERE pi = 'pi1'")
    chunks = web.get("/api/batches/b1/chunks").json()["chunks"]
    assert [(chunk["failed_pis"], chunk["pi_error"]) for chunk in chunks] == [(0, None), (1, "the tip is not known")]
    assert [chunk["progress"]["failed"] for chunk in chunks] == [0, 3]
    answer = web.ask("POST", "/api/batches/b1/retry", json={"chunk_id": chunks[1]["chunk_id"]})
    assert answer.json() == {"chunks": 1}
    [chunk] = web.get("/api/batches/b1/chunks?phase=PENDING").json()["chunks"]
    assert (chunk["run"], chunk["failed_pis"]) == (2, 0)


def test_every_icon_exists(web: Live) -> None:
    """Those of the templates, of the navigation and of the scripts."""
    add(web)
    scripts = "".join(path.read_text() for path in (Path(pages.__file__).parent / "static").glob("*.js"))
    names = set(re.findall(r'(?:icon|empty)\("([a-z]+)"|(?:badge|notice)\("[a-z]+", "([a-z]+)"', scripts))
    assert names
    for path in ("/batches", "/batches/b1"):
        text = web.get(path).text
        wanted = {first or second for first, second in names} | set(re.findall(r'href="#i-([a-z]+)"', text))
        assert wanted <= set(re.findall(r'id="i-([a-z]+)"', text))
