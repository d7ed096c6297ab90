"""The table of texts, and the schemas that it needs beside it."""

from __future__ import annotations

from tabellion.accounts.tables import SCHEMA as ACCOUNTS
from tabellion.delivery.endpoints import SCHEMA as DELIVERY
from tabellion.engine.schema import Schema

TEXTS = """CREATE TABLE tabellion_checksums (id text PRIMARY KEY, content text NOT NULL,
  status text NOT NULL DEFAULT 'waiting', sha256 text, error text, created_at TIME NOT NULL)"""
SCHEMA = Schema(
    "checksums",
    versions=((TEXTS,),),
    tables=("tabellion_checksums",),
    needs=(ACCOUNTS, DELIVERY),  # the audit log and the webhooks
)
