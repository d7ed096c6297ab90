"""The tables of websites: jobs, and the analysis of each model."""

from __future__ import annotations

from tabellion.engine.schema import Schema
from tabellion.engine.sql import CLOCK, Dialect, literal
from tabellion.pipelines.websites.states import OPEN, PHASES

JOBS, ANALYSES = "website_jobs", "website_analyses"


def _phase_columns(prefix: str) -> str:
    return f"""  {prefix}_started_at TIME,
  {prefix}_finished_at TIME,
  {prefix}_attempts integer NOT NULL DEFAULT 0,
  {prefix}_worker text,
  {prefix}_error text,
"""


def _first(dialect: Dialect) -> list[str]:
    """Texts, prompts and images are files; the columns `info_file` … have their hashes."""
    no = literal(False, dialect)
    statuses = ", ".join(f"'{status}'" for status in OPEN)
    phases = "".join(_phase_columns(phase.prefix) for phase in PHASES)
    return [
        f"""CREATE TABLE {JOBS} (
  id text PRIMARY KEY,
  url text NOT NULL,
  normalized_url text NOT NULL,
  type text NOT NULL,
  models text NOT NULL,
  language text NOT NULL DEFAULT 'en',
  status text NOT NULL DEFAULT 'not-started',
  "inProgress" FLAG NOT NULL DEFAULT FALSE,
{phases}  title text,
  info text,
  info_file text,
  screenshot_file text,
  favicon_file text,
  prompts_file text,
  results text,
  cost NUMBER,
  submitted_by text,
  created_at TIME NOT NULL DEFAULT {CLOCK[dialect]},
  updated_at TIME NOT NULL DEFAULT {CLOCK[dialect]}
)""",
        # One open job for each website and type: the database refuses a second one, whoever submits it.
        f"CREATE UNIQUE INDEX {JOBS}_open ON {JOBS} (normalized_url, type) WHERE status IN ({statuses})",
        *(
            f"CREATE INDEX {JOBS}_{phase.prefix} ON {JOBS} (created_at, id) "
            f"WHERE status = '{phase.status}' AND \"inProgress\" = {no}"
            for phase in PHASES
        ),
        f"CREATE INDEX {JOBS}_url ON {JOBS} (normalized_url, id)",
        f"""CREATE TABLE {ANALYSES} (
  id text PRIMARY KEY,
  job_id text NOT NULL,
  model text NOT NULL,
  status text NOT NULL DEFAULT 'ready',
  started_at TIME,
  finished_at TIME,
  attempts integer NOT NULL DEFAULT 0,
  worker text,
  error text,
  result text,
  cost NUMBER,
  created_at TIME NOT NULL DEFAULT {CLOCK[dialect]},
  UNIQUE (job_id, model)
)""",
        f"CREATE INDEX {ANALYSES}_ready ON {ANALYSES} (created_at, id) WHERE status = 'ready'",
    ]


SCHEMA = Schema("websites", (_first,), (JOBS, ANALYSES), fix="tabellion migrate --with websites --sql")
