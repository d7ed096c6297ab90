"""The queues of a registry extractor: documents are extracted, then read; companies are looked up."""

import asyncio
import random

from tabellion import Job, Permanent, Queue

extraction = Queue(
    "extraction_queue", name="extraction", status="status_id",
    ready=1, running=2, done=3, failed=4,
    worker="worker_id", started_at="processing_started_at", error="error_message", retry_base=0.5,
)  # fmt: skip
ocr = Queue(  # the same rows' second life: it begins where extraction is done
    "extraction_queue", name="ocr", status="status_id", lease=30,
    ready=3, running=6, done=5, failed=4,
    worker="ocr_worker_id", started_at="ocr_started_at", error="ocr_error",
    attempts="ocr_attempts", max_attempts="ocr_max_attempts", retry_base=0.5,
)  # fmt: skip
companies = Queue(
    "search_sessions",
    name="companies",
    ready={"status": "pending_company_selection", "req_completed": False},
    running="scraping_company_data",
    done={"status": "pending_name_selection", "req_completed": True},
    failed="failed",
)

SCHEMA = """
CREATE TABLE extraction_queue (
  id INTEGER PRIMARY KEY, status_id INTEGER NOT NULL DEFAULT 1, document TEXT NOT NULL, file TEXT,
  worker_id TEXT, processing_started_at TEXT, error_message TEXT,
  ocr_worker_id TEXT, ocr_started_at TEXT, ocr_error TEXT, ocr_attempts INTEGER DEFAULT 0,
  ocr_max_attempts INTEGER DEFAULT 3, ocr_text TEXT, created_at TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE search_sessions (
  id INTEGER PRIMARY KEY, status TEXT NOT NULL DEFAULT 'pending_company_selection', company TEXT NOT NULL,
  req_completed BOOLEAN DEFAULT FALSE, found INTEGER, created_at TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX extraction_ready ON extraction_queue (created_at, id) WHERE status_id = 1;
CREATE INDEX ocr_ready ON extraction_queue (created_at, id) WHERE status_id = 3;
CREATE INDEX companies_ready ON search_sessions (created_at, id)
  WHERE status = 'pending_company_selection' AND req_completed = 0;
"""


@extraction.handler
async def extract(job: Job) -> dict[str, object]:
    """Stands for a browser that fetches a document."""
    await asyncio.sleep(random.uniform(0.05, 0.4))
    if job.attempt == 1 and job.key % 9 == 0:
        raise ConnectionError("the registry closed the session")
    return {"file": f"acte-{job.key}.pdf"}


@ocr.handler
async def read(job: Job) -> dict[str, object]:
    """Stands for a model that reads the pages one by one."""
    if job.key % 40 == 0:
        raise Permanent("empty PDF")
    for page in range(1, 5):
        job.note(f"page {page} of 4")
        await asyncio.sleep(random.uniform(0.05, 0.3))
    return {"ocr_text": f"text of {job['file']}"}


@companies.handler
def look_up(job: Job) -> dict[str, object]:
    """A plain function runs in a thread."""
    return {"found": len(job["company"])}
