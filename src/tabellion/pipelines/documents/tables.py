"""The tables of the document pipeline."""

from __future__ import annotations

from tabellion.accounts import tables as accounts
from tabellion.engine.schema import Schema
from tabellion.engine.sql import Dialect
from tabellion.pipelines.documents import states


def errors_with_codes(dialect: Dialect) -> list[str]:
    """Converts errors that were stored as sentences of the engine: the last place that derives a code from words."""
    build_object = "json_build_object" if dialect == "postgresql" else "json_object"
    text = "::text" if dialect == "postgresql" else ""
    return [
        f"""UPDATE tabellion_documents SET error = {build_object}('code', CASE
    WHEN error LIKE 'timed out%' THEN 'timed_out'
    WHEN error LIKE 'its document type cannot be used for now%' THEN 'configuration'
    WHEN error LIKE 'outputs cannot be written for now%' THEN 'outputs_failed'
    WHEN error LIKE 'quarantined after%' OR error LIKE 'crashed on%' OR error LIKE 'worker %' THEN 'worker_crashed'
    ELSE 'try_failed' END, 'message', error, 'attempts', attempts){text}
WHERE error IS NOT NULL AND error NOT LIKE '{{%'"""
    ]


_ITEM_COLUMNS = (
    "proximity NUMBER NOT NULL DEFAULT 0",
    "assigned_to text",
    "assigned_at TIME",
    "escalated_at TIME",
    "escalated_by text",
    "escalation text",
    "reviewer text",
    "claimed_at TIME",
    "finished_at TIME",
    "reason text",
    "change text",
    "draft text",
    "draft_by text",
    "draft_at TIME",
    "seconds NUMBER",
    "keystrokes integer",
)
_FIELD_COLUMNS = (
    "state text",
    "manually_corrected FLAG NOT NULL DEFAULT FALSE",
    "read_value text",
    "old_value text",
    "candidates text",
)
#: One entry per version, oldest first; a version once released is never edited, and later ones only add.
#: TIME, FLAG and NUMBER are replaced by the types of each database; JSON is stored as text in both.
_VERSIONS = (
    (
        # `chore` is work on a row beside reading it: a duplicate follows its original (follow, following, followed,
        # unfollowed), a failure is reported (telling). NULL is a document that is read itself.
        """CREATE TABLE tabellion_documents (
  id text PRIMARY KEY,
  status text NOT NULL DEFAULT 'queued',
  chore text,
  told text,
  type text,
  found_type text,
  type_key text NOT NULL,
  model text NOT NULL DEFAULT 'local',
  sha256 text NOT NULL,
  bytes bigint NOT NULL,
  name text NOT NULL,
  media text NOT NULL,
  blob text NOT NULL,
  key text NOT NULL,
  duplicate_of text,
  pages integer,
  done_pages integer,
  result text,
  verdict text,
  reasons text,
  json_path text,
  json_sha256 text,
  parquet_path text,
  parquet_sha256 text,
  cost NUMBER,
  error text,
  worker text,
  attempts integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL DEFAULT 4,
  webhook text,
  created_at TIME NOT NULL,
  started_at TIME,
  completed_at TIME,
  version integer NOT NULL DEFAULT 1
)""",
        "CREATE INDEX tabellion_documents_ready ON tabellion_documents (model, id) "
        "WHERE status = 'queued' AND chore IS NULL",
        "CREATE INDEX tabellion_documents_running ON tabellion_documents (id) WHERE status = 'processing'",
        "CREATE INDEX tabellion_documents_following ON tabellion_documents (id) WHERE chore = 'follow'",
        "CREATE INDEX tabellion_documents_untold ON tabellion_documents (id) "
        "WHERE status = 'failed' AND chore IS NULL AND told IS NULL",
        "CREATE INDEX tabellion_documents_duplicates ON tabellion_documents (duplicate_of) "
        "WHERE duplicate_of IS NOT NULL",
        "CREATE INDEX tabellion_documents_status ON tabellion_documents (status, id)",
        "CREATE INDEX tabellion_documents_sha256 ON tabellion_documents (sha256)",
        # A watcher of all documents queries several times a second what has arrived and ended since.
        "CREATE INDEX tabellion_documents_created ON tabellion_documents (created_at, id)",
        "CREATE INDEX tabellion_documents_completed ON tabellion_documents (completed_at, id) "
        "WHERE completed_at IS NOT NULL",
        """CREATE TABLE tabellion_processed_documents (
  key text PRIMARY KEY,
  document_id text NOT NULL,
  created_at TIME NOT NULL
)""",
        "CREATE INDEX tabellion_processed_documents_document ON tabellion_processed_documents (document_id)",
        """CREATE TABLE tabellion_extracted_fields (
  document_id text NOT NULL,
  name text NOT NULL,
  place integer NOT NULL,
  value text,
  confidence NUMBER NOT NULL,
  page integer,
  box text,
  quote text,
  source text NOT NULL,
  reasons text NOT NULL,
  locked FLAG NOT NULL DEFAULT FALSE,
  corrected_by text,
  corrected_at TIME,
  PRIMARY KEY (document_id, name)
)""",
        """CREATE TABLE tabellion_review_items (
  id text PRIMARY KEY,
  document_id text NOT NULL UNIQUE,
  status text NOT NULL DEFAULT 'pending',
  priority NUMBER NOT NULL,
  confidence NUMBER NOT NULL,
  complexity NUMBER NOT NULL,
  value NUMBER NOT NULL,
  reasons text NOT NULL,
  created_at TIME NOT NULL,
  due_at TIME NOT NULL,
  version integer NOT NULL DEFAULT 1
)""",
        "CREATE INDEX tabellion_review_items_open ON tabellion_review_items (priority DESC, id) "
        "WHERE status IN ('pending', 'in_review')",
    ),
    (
        # Assignments, claims and people's decisions on fields.
        *(f"ALTER TABLE tabellion_review_items ADD COLUMN {column}" for column in _ITEM_COLUMNS),
        *(f"ALTER TABLE tabellion_extracted_fields ADD COLUMN {column}" for column in _FIELD_COLUMNS),
        "UPDATE tabellion_extracted_fields SET state = 'corrected', manually_corrected = TRUE WHERE locked",
        "CREATE INDEX tabellion_documents_unwritten ON tabellion_documents (id) "
        "WHERE status = 'completed' AND chore = 'rewrite'",
        "CREATE INDEX tabellion_review_items_ready ON tabellion_review_items (priority DESC, id) "
        "WHERE status = 'pending'",
        "CREATE INDEX tabellion_review_items_assigned ON tabellion_review_items (assigned_to, status) "
        "WHERE assigned_to IS NOT NULL",
        "CREATE INDEX tabellion_review_items_finished ON tabellion_review_items (finished_at, id) "
        "WHERE finished_at IS NOT NULL",
        # The queue page shows the number of items of each kind, however many wait.
        "CREATE INDEX tabellion_review_items_due ON tabellion_review_items (due_at) "
        "WHERE status IN ('pending', 'in_review')",
        "CREATE INDEX tabellion_review_items_escalated ON tabellion_review_items (escalated_at) "
        "WHERE escalated_at IS NOT NULL",
        "CREATE INDEX tabellion_review_items_held ON tabellion_review_items (reviewer) WHERE status = 'in_review'",
    ),
    (
        # `former` is the state to which a document returns if it is read once more and that fails.
        "ALTER TABLE tabellion_documents ADD COLUMN former text",
        # Former outputs of documents that were read once more; `created_at` is the document's.
        """CREATE TABLE tabellion_superseded_outputs (
  id text PRIMARY KEY,
  document_id text NOT NULL,
  path text NOT NULL,
  sha256 text,
  status text NOT NULL DEFAULT 'waiting',
  error text,
  created_at TIME NOT NULL
)""",
        "CREATE INDEX tabellion_superseded_outputs_waiting ON tabellion_superseded_outputs (id) "
        "WHERE status = 'waiting'",
    ),
    (
        # Drafts belong to a person.
        """CREATE TABLE tabellion_review_drafts (
  item_id text NOT NULL REFERENCES tabellion_review_items (id) ON DELETE CASCADE,
  person text NOT NULL,
  body text NOT NULL,
  saved_at TIME NOT NULL,
  PRIMARY KEY (item_id, person)
)""",
        """INSERT INTO tabellion_review_drafts (item_id, person, body, saved_at)
SELECT id, draft_by, draft, draft_at FROM tabellion_review_items
WHERE draft IS NOT NULL AND draft_by IS NOT NULL AND draft_at IS NOT NULL""",
    ),
    (
        # Decisions on a field belong to the bytes and the type, and later readings start with them.
        """CREATE TABLE tabellion_field_decisions (
  sha256 text NOT NULL,
  type text NOT NULL,
  name text NOT NULL,
  value text,
  page integer,
  box text,
  quote text,
  reasons text NOT NULL,
  state text NOT NULL,
  locked FLAG NOT NULL,
  corrected_by text,
  old_value text,
  decided_at TIME,
  PRIMARY KEY (sha256, type, name)
)""",
        """INSERT INTO tabellion_field_decisions
  (sha256, type, name, value, page, box, quote, reasons, state, locked, corrected_by, old_value, decided_at)
SELECT sha256, type, name, value, page, box, quote, reasons, state, locked, corrected_by, old_value, corrected_at
FROM (SELECT d.sha256, coalesce(d.found_type, d.type) AS type, f.name, f.value, f.page, f.box, f.quote, f.reasons,
    f.state, f.locked, f.corrected_by, f.old_value, f.corrected_at,
    row_number() OVER (PARTITION BY d.sha256, coalesce(d.found_type, d.type), f.name
      ORDER BY CASE WHEN f.locked THEN 0 ELSE 1 END, f.corrected_at DESC, d.id DESC) AS turn
  FROM tabellion_extracted_fields AS f JOIN tabellion_documents AS d ON d.id = f.document_id
  WHERE f.state IN ('corrected', 'absent', 'confirmed') AND coalesce(d.found_type, d.type) IS NOT NULL) AS said
WHERE turn = 1""",
        # The model that an upload named; NULL: the one of its type or of the settings.
        "ALTER TABLE tabellion_documents ADD COLUMN asked_model text",
    ),
    errors_with_codes,
    states.RENAMED_VALUES,
)
SCHEMA = Schema(
    "documents",
    versions=_VERSIONS,
    tables=(
        "tabellion_documents", "tabellion_processed_documents", "tabellion_extracted_fields", "tabellion_review_items",
        "tabellion_superseded_outputs", "tabellion_review_drafts", "tabellion_field_decisions",
    ),
    needs=(accounts.SCHEMA,),
    fix="tabellion migrate --with documents --sql",
)  # fmt: skip
