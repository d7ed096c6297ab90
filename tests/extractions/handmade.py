"""The table as its users made it by hand, from what the descriptions of their systems say and nothing more."""

from __future__ import annotations

from tabellion import Store

TABLE = {
    "sqlite": """CREATE TABLE extraction_queue (id TEXT PRIMARY KEY, status_id INTEGER NOT NULL DEFAULT 1,
  document_type TEXT, worker_id TEXT, processing_started_at TEXT, error_message TEXT, file_url TEXT,
  ocr_worker_id TEXT, ocr_started_at TEXT, ocr_attempts INTEGER DEFAULT 0, ocr_max_attempts INTEGER DEFAULT 3,
  ocr_error TEXT, ocr_text TEXT, notes TEXT, created_at TEXT DEFAULT CURRENT_TIMESTAMP)""",
    "postgresql": """CREATE TABLE extraction_queue (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  status_id integer NOT NULL DEFAULT 1, document_type text, worker_id text, processing_started_at timestamptz,
  error_message text, file_url text, ocr_worker_id text, ocr_started_at timestamptz, ocr_attempts integer DEFAULT 0,
  ocr_max_attempts integer DEFAULT 3, ocr_error text, ocr_text text, notes text,
  created_at timestamptz DEFAULT now())""",
}


async def make_by_hand(store: Store) -> None:
    """The table, and nothing else."""
    await store.database.open()
    await store.database.fetch(TABLE[store.dialect])
