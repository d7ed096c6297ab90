"""Gemini's Files API, through Google's own client."""

from __future__ import annotations

import io
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from tabellion.testing import Serving
from tests.models.fake.samples import GOOGLE, INVOICE, pdf, send


def test_a_file_is_uploaded_used_and_deleted(google: genai.Client) -> None:
    """By its URI in a request, by its name in get and delete; then it is gone."""
    file = google.files.upload(
        file=io.BytesIO(pdf(INVOICE)),
        config=types.UploadFileConfig(mime_type="application/pdf", display_name="an invoice"),
    )
    assert file.name
    assert (file.mime_type, file.display_name) == ("application/pdf", "an invoice")
    assert file.state == types.FileState.ACTIVE
    assert file.size_bytes == len(pdf(INVOICE))
    contents: Any = [file, "Read."]
    reply = google.models.generate_content(model="gemini-2.5-flash", contents=contents)
    assert reply.text == INVOICE
    assert google.files.get(name=file.name).uri == file.uri
    assert file.name in [one.name for one in google.files.list()]
    google.files.delete(name=file.name)
    with pytest.raises(errors.ClientError, match="may not exist"):
        google.files.get(name=file.name)


def test_an_upload_in_several_chunks(fake: Serving) -> None:
    """Bytes at the right offset are accepted, at a wrong one refused; a query returns how many there are."""
    start = {"x-goog-upload-protocol": "resumable", "x-goog-upload-command": "start"}
    begun = send(fake.url, "/upload/v1beta/files", {"file": {"mimeType": "text/plain"}}, GOOGLE | start)
    path = begun.headers["x-goog-upload-url"].removeprefix(fake.url)

    def step(command: str, offset: int, data: bytes) -> tuple[int, str, str]:
        headers = {"x-goog-upload-command": command, "x-goog-upload-offset": str(offset)}
        reply = send(fake.url, path, data, GOOGLE | headers)
        received = reply.headers.get("x-goog-upload-size-received", "")
        return reply.status, reply.headers.get("x-goog-upload-status", ""), received

    assert step("upload", 0, b"Total: ") == (200, "active", "")
    assert step("query", 0, b"") == (200, "active", "7")
    assert step("upload", 3, b"5")[0] == 400
    assert step("upload, finalize", 7, b"5") == (200, "final", "")
    assert step("upload", 0, b"again")[0] == 404
