"""The tables of batches: batches, chunks, entities of a chunk, refs, and the versions of published entities."""

from __future__ import annotations

from tabellion.delivery.endpoints import SCHEMA as DELIVERY
from tabellion.engine.schema import Schema
from tabellion.engine.sql import CLOCK, Dialect, literal
from tabellion.pipelines.batches.states import ENDED, ENDED_REFS, OPEN_REFS, RefStatus, quote_list

BATCHES, CHUNKS, PIS, REFS = "batches", "batch_chunks", "batch_pis", "batch_refs"
ENTITIES, VERSIONS, RECEIVED = "batch_entities", "batch_versions", "batch_callbacks"


def _first(dialect: Dialect) -> list[str]:
    no, yes = literal(False, dialect), literal(True, dialect)
    now = CLOCK[dialect]
    return [
        f"""CREATE TABLE {BATCHES} (
  id text PRIMARY KEY,
  status text NOT NULL DEFAULT 'open',
  content_hash text,
  chunk_size integer,
  callback_url text,
  total_pis integer NOT NULL DEFAULT 0,
  total_refs integer NOT NULL DEFAULT 0,
  duplicates integer NOT NULL DEFAULT 0,
  submitted_by text,
  worker text,
  error text,
  created_at TIME NOT NULL DEFAULT {now},
  completed_at TIME,
  closed_at TIME
)""",
        # `run` counts how often the chunk was started: each run ends with one callback. The counts of refs are filled
        # in when a chunk ends, so that the progress of a batch needs to count the refs of open chunks only.
        f"""CREATE TABLE {CHUNKS} (
  id text PRIMARY KEY,
  batch_id text NOT NULL,
  chunk_id text NOT NULL,
  position integer NOT NULL DEFAULT 0,
  phase text NOT NULL DEFAULT 'PENDING',
  report text NOT NULL DEFAULT 'due',
  run integer NOT NULL DEFAULT 1,
  callback_url text,
  content_hash text NOT NULL,
  total_pis integer NOT NULL,
  total_refs integer NOT NULL,
  done_refs integer,
  skipped_refs integer,
  failed_refs integer,
  fetching_attempts integer NOT NULL DEFAULT 0,
  fetching_error text,
  publishing_attempts integer NOT NULL DEFAULT 0,
  publishing_error text,
  worker text,
  started_at TIME NOT NULL DEFAULT {now},
  completed_at TIME
)""",
        f"CREATE INDEX {CHUNKS}_batch ON {CHUNKS} (batch_id, position)",
        f"CREATE INDEX {CHUNKS}_open ON {CHUNKS} (batch_id) WHERE phase NOT IN ({quote_list(ENDED)})",
        f"CREATE INDEX {CHUNKS}_pending ON {CHUNKS} (started_at, position, id) WHERE phase = 'PENDING'",
        f"CREATE INDEX {CHUNKS}_processing ON {CHUNKS} (started_at, position, id) WHERE phase = 'PROCESSING'",
        f"CREATE INDEX {CHUNKS}_due ON {CHUNKS} (started_at, id) WHERE phase = 'ERROR' AND report = 'due'",
        f"""CREATE TABLE {PIS} (
  chunk text NOT NULL,
  position integer NOT NULL,
  pi text NOT NULL,
  current_tip text NOT NULL,
  new_tip text,
  new_version integer,
  published_run integer,
  entity_error text,
  PRIMARY KEY (chunk, position)
)""",
        f"CREATE UNIQUE INDEX {PIS}_pi ON {PIS} (chunk, pi)",
        f"""CREATE TABLE {REFS} (
  id text PRIMARY KEY,
  chunk text NOT NULL,
  pi_position integer NOT NULL,
  filename text NOT NULL,
  staging_key text NOT NULL,
  cdn_url text NOT NULL,
  status text NOT NULL DEFAULT '{RefStatus.PENDING}',
  loaded FLAG NOT NULL DEFAULT {no},
  attempts integer NOT NULL DEFAULT 0,
  error text,
  reason text,
  result_cid text,
  ocr_text_length integer,
  worker text,
  started_at TIME,
  finished_at TIME
)""",
        f"CREATE INDEX {REFS}_chunk ON {REFS} (chunk)",
        f"CREATE INDEX {REFS}_ended ON {REFS} (chunk, status) WHERE status IN ({quote_list(ENDED_REFS)})",
        f"CREATE INDEX {REFS}_open ON {REFS} (chunk) WHERE status IN ({quote_list(OPEN_REFS)})",
        f"CREATE INDEX {REFS}_ready ON {REFS} (id) WHERE status = '{RefStatus.PENDING}' AND loaded = {yes}",
        f"""CREATE TABLE {ENTITIES} (
  pi text PRIMARY KEY,
  tip text NOT NULL,
  version integer NOT NULL,
  updated_at TIME NOT NULL DEFAULT {now}
)""",
        # The database itself refuses two versions after the same one, and two of one run of a chunk.
        f"""CREATE TABLE {VERSIONS} (
  pi text NOT NULL,
  version integer NOT NULL,
  tip text NOT NULL,
  previous text NOT NULL,
  chunk text NOT NULL,
  run integer NOT NULL,
  created_at TIME NOT NULL DEFAULT {now},
  PRIMARY KEY (pi, version),
  UNIQUE (pi, previous),
  UNIQUE (chunk, run, pi)
)""",
        f"""CREATE TABLE {RECEIVED} (
  id text PRIMARY KEY,
  batch_id text NOT NULL,
  chunk_id text NOT NULL,
  status text NOT NULL,
  body text NOT NULL,
  received_at TIME NOT NULL DEFAULT {now}
)""",
        f"CREATE INDEX {RECEIVED}_chunk ON {RECEIVED} (batch_id, chunk_id)",
    ]


def _second(dialect: Dialect) -> list[str]:
    no, yes = literal(False, dialect), literal(True, dialect)
    return [
        # Random: the ids of callbacks are made from it, so that a chunk that was pruned and is sent again has new ones.
        f"ALTER TABLE {CHUNKS} ADD COLUMN identity text",
        # A failed ref of an ended chunk is read again only with its chunk, which publishes it. `retry batch-refs` sets
        # every column of the ready state, so the bar is a column of its own, and in the index of claims.
        f"ALTER TABLE {REFS} ADD COLUMN chunk_ended FLAG NOT NULL DEFAULT {no}",
        f"""UPDATE {REFS} SET chunk_ended = {yes} WHERE status = '{RefStatus.ERROR}'
  AND chunk IN (SELECT id FROM {CHUNKS} WHERE phase IN ({quote_list(ENDED)}))""",
        f"""CREATE INDEX {REFS}_claimable ON {REFS} (id)
  WHERE status = '{RefStatus.PENDING}' AND loaded = {yes} AND NOT chunk_ended""",
        f"DROP INDEX {REFS}_ready",
    ]


#: The code and parameters of an error, beside its text. Rows of earlier versions have the text alone.
_THIRD = tuple(
    f"ALTER TABLE {table} ADD COLUMN {name} text"
    for table in (CHUNKS, PIS, REFS)
    for name in ("error_code", "error_params")
)

SCHEMA = Schema(
    "batches", (_first, _second, _THIRD), (BATCHES, CHUNKS, PIS, REFS, ENTITIES, VERSIONS, RECEIVED), needs=(DELIVERY,),
    fix="tabellion migrate --with batches --sql",
)  # fmt: skip
