"""The contract of the chunked OCR service as JSON Schemas, written from its TypeScript types.

Extensions, all within the results of a callback: `completed_refs` and `error` of an entity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs

DRAFT = "https://json-schema.org/draft/2020-12/schema"
TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
NUMBER = {"type": "number", "minimum": 0}
OUTCOME = {"enum": ["success", "partial", "error"]}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of an object with these fields and no other."""
    return {
        "type": "object", "properties": required | (optional or {}), "required": list(required),
        "additionalProperties": False,
    }  # fmt: skip


def _array(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


#: `OCRChunkRequest`, the body of `POST /process`.
REQUEST = {"$schema": DRAFT} | _object(
    {
        "batch_id": TEXT,
        "chunk_id": TEXT,
        "callback_url": TEXT,
        "pis": _array(
            _object(
                {
                    "pi": TEXT,
                    "current_tip": TEXT,
                    "refs": _array(_object({"filename": TEXT, "staging_key": TEXT, "cdn_url": TEXT})),
                }
            )
        ),
    }
)

#: The answer of `POST /process`.
ACCEPTED = {"$schema": DRAFT} | _object(
    {"status": {"const": "accepted"}, "chunk_id": TEXT, "total_pis": COUNT, "total_refs": COUNT}
)

#: The answer of `GET /status/:batchId/:chunkId`.
STATUS = {"$schema": DRAFT} | _object(
    {
        "status": {"enum": ["processing", "done", "error"]},
        "phase": {"enum": ["FETCHING", "PROCESSING", "PUBLISHING", "DONE", "ERROR"]},
        "progress": _object({"total_refs": COUNT, "completed": COUNT, "failed": COUNT, "pending": COUNT}),
        "rate_limiter": _object(
            {"tokens": NUMBER, "max_tokens": NUMBER, "rps": NUMBER},
            {"backoff_until": {"type": "string", "format": "date-time"}},
        ),
    },
    {"error": TEXT},
)

#: An extension: refs that have a result, positively.
COMPLETED_REFS = _array(
    _object({"filename": TEXT, "status": {"enum": ["done", "skipped"]}}, {"result_cid": TEXT, "reason": TEXT})
)

#: `OCRChunkCallback`, the body that is posted to `callback_url`.
CALLBACK = {"$schema": DRAFT} | _object(
    {
        "batch_id": TEXT,
        "chunk_id": TEXT,
        "status": OUTCOME,
        "results": _array(
            _object(
                {"pi": TEXT, "status": OUTCOME, "refs_completed": COUNT, "refs_failed": COUNT},
                {
                    "new_tip": TEXT,
                    "new_version": {"type": "integer", "minimum": 1},
                    "failed_refs": _array(_object({"filename": TEXT, "error": TEXT})),
                    "completed_refs": COMPLETED_REFS,
                    "error": TEXT,
                },
            )
        ),
        "summary": _object({"total_refs": COUNT, "completed": COUNT, "failed": COUNT, "processing_time_ms": COUNT}),
    },
    {"error": TEXT},
)


def check(schema: dict[str, Any], value: Any) -> None:
    """Fail with every violation of a schema, and with what the types say in words only."""
    problems = [f"{error.instance_path}: {error.message}" for error in _validator(schema).iter_errors(value)]
    if not problems and schema is STATUS:
        problems = list(_contradictions_of_status(value))
    if not problems and schema is CALLBACK:
        problems = list(_contradictions_of_callback(value))
    assert not problems, (problems, value)


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)


def _contradictions_of_status(value: dict[str, Any]) -> Iterator[str]:
    progress, status = value["progress"], {"DONE": "done", "ERROR": "error"}.get(value["phase"], "processing")
    if value["status"] != status:
        yield f"status {value['status']} in phase {value['phase']}"
    if progress["total_refs"] != progress["completed"] + progress["failed"] + progress["pending"]:
        yield "the progress does not add up"
    if ("error" in value) != (status == "error") or value.get("error") == "":
        yield "an error belongs to the phase ERROR, and to it alone"


def _contradictions_of_callback(value: dict[str, Any]) -> Iterator[str]:
    summary, results = value["summary"], value["results"]
    if summary["total_refs"] != summary["completed"] + summary["failed"]:
        yield "the summary does not add up"
    for field, total in (("refs_completed", "completed"), ("refs_failed", "failed")):
        if sum(result[field] for result in results) != summary[total]:
            yield f"the sum of {field} is not {total}"
    if ("error" in value) != (value["status"] == "error"):
        yield "a global error belongs to the status error, and to it alone"
    for result in results:
        if ("new_tip" in result) != ("new_version" in result):
            yield f"{result['pi']} has a tip without a version, or the reverse"
        if len(result.get("failed_refs", [])) != result["refs_failed"]:
            yield f"{result['pi']} does not name each failed ref"
        if len(result["completed_refs"]) != result["refs_completed"]:
            yield f"{result['pi']} does not name each completed ref"
