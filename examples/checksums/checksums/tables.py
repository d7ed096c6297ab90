"""The table of texts with the index that its queue needs, and the schemas that it needs beside it."""

from __future__ import annotations

from tabellion.accounts.tables import SCHEMA as ACCOUNTS
from tabellion.delivery.endpoints import SCHEMA as DELIVERY
from tabellion.engine.schema import Schema

TEXTS = """CREATE TABLE tabellion_checksums (id text PRIMARY KEY, content text NOT NULL,
  status text NOT NULL DEFAULT 'waiting', sha256 text, error text, created_at TIME NOT NULL)"""
READY = "CREATE INDEX tabellion_checksums_ready ON tabellion_checksums (created_at, id) WHERE status = 'waiting'"
SCHEMA = Schema(
    "checksums",
    versions=((TEXTS, READY),),
    tables=("tabellion_checksums",),
    needs=(ACCOUNTS, DELIVERY),  # the audit log and the webhooks
)
