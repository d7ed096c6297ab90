"""The columns and tables of review: people, what they do to fields, and the trail that keeps it.

They are versions 2, 4 and 5 of the document tables, which make them (`pipelines/documents/tables.py`).
"""

from __future__ import annotations

from tabellion.engine.sql import Dialect

TABLES = (
    "tabellion_users", "tabellion_audit_log", "tabellion_audit_head", "tabellion_review_drafts",
    "tabellion_field_decisions",
)  # fmt: skip
GENESIS = "0" * 64  #: what the first entry of the trail takes for the hash before it

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
#: TIME, FLAG and NUMBER stand for what each database calls them.
_STATEMENTS = (
    *(f"ALTER TABLE tabellion_review_items ADD COLUMN {column}" for column in _ITEM_COLUMNS),
    *(f"ALTER TABLE tabellion_extracted_fields ADD COLUMN {column}" for column in _FIELD_COLUMNS),
    "UPDATE tabellion_extracted_fields SET state = 'corrected', manually_corrected = TRUE WHERE locked",
    "CREATE INDEX tabellion_documents_unwritten ON tabellion_documents (id) "
    "WHERE status = 'completed' AND chore = 'rewrite'",
    "CREATE INDEX tabellion_review_items_ready ON tabellion_review_items (priority DESC, id) WHERE status = 'pending'",
    "CREATE INDEX tabellion_review_items_assigned ON tabellion_review_items (assigned_to, status) "
    "WHERE assigned_to IS NOT NULL",
    "CREATE INDEX tabellion_review_items_finished ON tabellion_review_items (finished_at, id) "
    "WHERE finished_at IS NOT NULL",
    # Whoever looks at the queue is told how many there are of each kind, however many wait.
    "CREATE INDEX tabellion_review_items_due ON tabellion_review_items (due_at) "
    "WHERE status IN ('pending', 'in_review')",
    "CREATE INDEX tabellion_review_items_escalated ON tabellion_review_items (escalated_at) "
    "WHERE escalated_at IS NOT NULL",
    "CREATE INDEX tabellion_review_items_held ON tabellion_review_items (reviewer) WHERE status = 'in_review'",
    """CREATE TABLE tabellion_users (
  id text PRIMARY KEY,
  name text NOT NULL UNIQUE,
  role text NOT NULL,
  password text,
  available FLAG NOT NULL DEFAULT TRUE,
  created_at TIME NOT NULL,
  disabled_at TIME,
  last_seen_at TIME,
  language text
)""",
    """CREATE TABLE tabellion_audit_log (
  n bigint PRIMARY KEY,
  at text NOT NULL,
  document_id text,
  item_id text,
  actor text NOT NULL,
  action text NOT NULL,
  body text NOT NULL,
  previous text NOT NULL,
  hash text NOT NULL
)""",
    "CREATE INDEX tabellion_audit_log_document ON tabellion_audit_log (document_id, n)",
    "CREATE INDEX tabellion_audit_log_item ON tabellion_audit_log (item_id, n)",
    # The end of the chain: whoever appends takes this row first, and an end that was cut off is missed.
    """CREATE TABLE tabellion_audit_head (
  id integer PRIMARY KEY CHECK (id = 1),
  n bigint NOT NULL,
  previous text NOT NULL,
  hash text NOT NULL
)""",
    f"INSERT INTO tabellion_audit_head (id, n, previous, hash) VALUES (1, 0, '{GENESIS}', '{GENESIS}')",
)
_OWN: dict[Dialect, tuple[str, ...]] = {
    "postgresql": (
        """CREATE FUNCTION tabellion_audit_log_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'audit_log is append-only';
END $$""",
        """CREATE TRIGGER tabellion_audit_log_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON tabellion_audit_log
FOR EACH STATEMENT EXECUTE FUNCTION tabellion_audit_log_kept()""",
    ),
    "sqlite": (
        """CREATE TRIGGER tabellion_audit_log_unchanged BEFORE UPDATE ON tabellion_audit_log BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END""",
        """CREATE TRIGGER tabellion_audit_log_undeleted BEFORE DELETE ON tabellion_audit_log BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END""",
        # INSERT OR REPLACE deletes without asking the trigger above.
        """CREATE TRIGGER tabellion_audit_log_unreplaced BEFORE INSERT ON tabellion_audit_log
WHEN EXISTS (SELECT 1 FROM tabellion_audit_log WHERE n = NEW.n) BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END""",
        """CREATE TRIGGER tabellion_audit_log_headed AFTER INSERT ON tabellion_audit_log BEGIN
  UPDATE tabellion_audit_head SET n = NEW.n, previous = NEW.previous, hash = NEW.hash WHERE id = 1;
END""",
    ),
}


#: With version 4: everybody's draft is their own, and the end of the chain moves one step at a time.
_LATER = (
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
    "ALTER TABLE tabellion_audit_head ADD COLUMN at text",
    "UPDATE tabellion_audit_head SET at = (SELECT l.at FROM tabellion_audit_log AS l ORDER BY l.n DESC LIMIT 1)",
)
_LATER_OWN: dict[Dialect, tuple[str, ...]] = {
    "postgresql": (
        # Not asked of the rows there are: one that was forged must not stand in the way, `audit verify` names it.
        "ALTER TABLE tabellion_audit_log ADD CONSTRAINT audit_log_counted CHECK (n > 0) NOT VALID",
        """CREATE FUNCTION tabellion_audit_head_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'UPDATE' AND NEW.id = OLD.id AND NEW.n = OLD.n + 1 AND NEW.previous = OLD.hash THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'audit_head follows audit_log';
END $$""",
        """CREATE TRIGGER tabellion_audit_head_kept BEFORE UPDATE OR DELETE ON tabellion_audit_head
FOR EACH ROW EXECUTE FUNCTION tabellion_audit_head_kept()""",
        """CREATE TRIGGER tabellion_audit_head_whole BEFORE TRUNCATE ON tabellion_audit_head
FOR EACH STATEMENT EXECUTE FUNCTION tabellion_audit_head_kept()""",
    ),
    "sqlite": (
        "DROP TRIGGER tabellion_audit_log_headed",
        """CREATE TRIGGER tabellion_audit_log_headed AFTER INSERT ON tabellion_audit_log BEGIN
  UPDATE tabellion_audit_head SET n = NEW.n, previous = NEW.previous, hash = NEW.hash, at = NEW.at WHERE id = 1;
END""",
        """CREATE TRIGGER tabellion_audit_head_unchanged BEFORE UPDATE ON tabellion_audit_head
WHEN NEW.id IS NOT OLD.id OR NEW.n IS NOT OLD.n + 1 OR NEW.previous IS NOT OLD.hash BEGIN
  SELECT RAISE(ABORT, 'audit_head follows audit_log');
END""",
        """CREATE TRIGGER tabellion_audit_head_undeleted BEFORE DELETE ON tabellion_audit_head BEGIN
  SELECT RAISE(ABORT, 'audit_head follows audit_log');
END""",
        """CREATE TRIGGER tabellion_audit_head_unreplaced BEFORE INSERT ON tabellion_audit_head
WHEN EXISTS (SELECT 1 FROM tabellion_audit_head) BEGIN
  SELECT RAISE(ABORT, 'audit_head follows audit_log');
END""",
    ),
}
#: With version 5: what people said of a field belongs to the bytes and the type, and later readings begin with it.
DECISIONS = (
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
)


def statements(dialect: Dialect) -> tuple[str, ...]:
    """What adds review to document tables of version 1, in order."""
    return (*_STATEMENTS, *_OWN[dialect])


def later_statements(dialect: Dialect) -> tuple[str, ...]:
    """What review adds to document tables of version 3, in order."""
    return (*_LATER, *_LATER_OWN[dialect])
