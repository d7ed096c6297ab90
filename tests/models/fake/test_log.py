"""The request log: what is in it, and what never is."""

from __future__ import annotations

import time

from tabellion.testing import Serving
from tests.models.fake.samples import chat, generate, send


def test_one_line_per_request(fake: Serving) -> None:
    """Arrival, protocol, model without its knobs, status, seconds, tokens, and the knob that applied."""
    before = time.time()
    generate(fake.url, "hello", "logged-gemini")
    chat(fake.url, "hello", "logged-openai@503")
    first, second = (line for line in fake.lines() if line["model"].startswith("logged-"))
    assert (first["protocol"], first["status"], first["knob"]) == ("gemini", 200, "")
    assert (second["protocol"], second["status"], second["knob"]) == ("openai", 503, "503")
    assert before <= first["time"] <= second["time"] <= time.time()
    assert first["tokens"] > 0
    assert first["seconds"] >= 0


def test_neither_content_nor_keys_are_logged(fake: Serving) -> None:
    """Documents and keys stay out of the log."""
    secret = {"x-goog-api-key": "secret-key"}
    body = {"contents": [{"parts": [{"text": "secret text"}]}]}
    send(fake.url, "/v1beta/models/m:generateContent?key=secret-key", body, secret)
    send(fake.url, "/v1/chat/completions", b"{}", {"authorization": "Bearer secret-key"})
    assert "secret" not in fake.log.read_text()
