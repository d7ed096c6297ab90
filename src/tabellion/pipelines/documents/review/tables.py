"""The columns and tables of review: assignments, claims and people's decisions on fields.

They are part of versions 2, 4 and 5 of the document tables (`pipelines/documents/tables.py`).
"""

from __future__ import annotations

TABLES = ("tabellion_review_drafts", "tabellion_field_decisions")

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
#: TIME, FLAG and NUMBER are replaced by the types of each database.
STATEMENTS = (
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
    # The queue page shows the number of items of each kind, however many wait.
    "CREATE INDEX tabellion_review_items_due ON tabellion_review_items (due_at) "
    "WHERE status IN ('pending', 'in_review')",
    "CREATE INDEX tabellion_review_items_escalated ON tabellion_review_items (escalated_at) "
    "WHERE escalated_at IS NOT NULL",
    "CREATE INDEX tabellion_review_items_held ON tabellion_review_items (reviewer) WHERE status = 'in_review'",
)
#: Version 4: drafts belong to a person.
LATER = (
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
)
#: Version 5: decisions on a field belong to the bytes and the type, and later readings start with them.
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
