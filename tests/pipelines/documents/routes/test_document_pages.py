"""The list of documents as HTML: what can be chosen for an upload."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.pipelines.documents.review import queue
from tests.models.bills import bill
from tests.web.browser import signed_in
from tests.web.live import live

MODELS = {"gemini": {"key": "k", "model": "gemini-2.5-flash"}}


def test_uploads_choose_a_model_and_default_to_the_configured_one(tmp_path: Path) -> None:
    """Where there is more than one."""
    url = f"sqlite:///{tmp_path}/prod.db"
    with live(tmp_path, {"prod": url}, models=MODELS, sections={"documents": {"model": "gemini"}}) as web:
        text = signed_in(web, "operator").get("/documents").text
        assert '<select id="upload-model"><option value="">default model</option>' in text
        assert '<option value="gemini">gemini</option>' in text
        untyped, local = web.upload(bill("a")), web.upload(bill("b"), data={"model": "local"})
        assert web.get(f"/api/documents/{untyped['id']}").json()["model"] == "gemini"
        assert web.get(f"/api/documents/{local['id']}").json()["model"] == "local"


def test_review_uses_the_configured_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a claim and an assignment last."""
    for name in ("LEASE", "HOLD"):
        monkeypatch.setattr(queue, name, getattr(queue, name))  # given back at the end
    with live(
        tmp_path, {"prod": f"sqlite:///{tmp_path}/prod.db"}, sections={"review": {"lease": 42, "assignment_hold": 7}}
    ):
        assert (queue.review_queue().lease, queue.HOLD) == (42.0, 7.0)
