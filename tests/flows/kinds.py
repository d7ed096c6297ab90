"""Tables as people have them, and what `adopt` says: docs/how-to/adopt-a-table.md shows it, test_tables.py runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabellion.engine.queue import format_state

SQLITE, POSTGRES = "sqlite", "postgresql"
DATABASES = {SQLITE: "SQLite", POSTGRES: "PostgreSQL"}
FOLDER = Path(__file__).parent / "tables"  #: the scripts that make them
MIRRORS = ("worker", "started_at", "finished_at", "error", "attempts")


@dataclass(frozen=True)
class Kind:
    """One kind of table on the databases that support it, and what happens to it."""

    name: str
    looks: str  #: what is special about it
    table: str  #: what `adopt` is given in the end
    insert: str  #: adds a waiting row whose work is `{work}`
    expected: Mapping[str, Any]  #: the arguments of the queue that `adopt` writes
    differs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  #: those that are others on one database
    first: str = ""  #: what is given to `adopt` first, where it is not the table
    says: tuple[str, ...] = ()  #: what `adopt` says of the table as it is
    code: int = 0  #: its exit code then
    recipe: Mapping[str, str] = field(default_factory=dict)  #: the SQL in what `adopt` says, to be run as it is
    advice: str = ""  #: what its owner does in words of their own: the script `NAME.mended.DATABASE.sql`
    options: tuple[str, ...] = ()  #: what `adopt` must be told
    edit: str = ""  #: the line that its owner adds to the declaration
    notes: tuple[str, ...] = ()  #: what `adopt` notes beside the declaration in the end
    warnings: tuple[str, ...] = ()  #: what `doctor` warns of in the end
    work: str = "file_name"  #: the column that the handler reads
    result: str = "result"  #: the column that it writes
    empty: Mapping[str, Any] = field(default_factory=dict)  #: what empty mirrors hold that may not be NULL
    follows: tuple[str, ...] = ()  #: columns that the database itself changes
    role: str = ""  #: grants for `{role}`, which works the queue in the owner's place

    @property
    def slug(self) -> str:
        """Its name in files and pytest ids."""
        return re.sub(r"\W+", "_", self.name.lower())

    @property
    def databases(self) -> list[str]:
        """The databases that can have such a table."""
        return [dialect for dialect in DATABASES if self.script(dialect)]

    def script(self, dialect: str, part: str = "") -> str:
        """Return the SQL that creates or fixes it; empty where this database has no such thing."""
        path = FOLDER / f"{self.slug}{part}.{dialect}.sql"
        return path.read_text("utf-8") if path.exists() else ""

    def page_row(self) -> str:
        """Return its line of docs/how-to/adopt-a-table.md."""
        todo = [self._recipe() if self.recipe else "", self.advice]
        command = " ".join(["adopt", self.table, *self.options])
        todo.append(f"`{command}`" if self.options or self.first else "")
        todo.append(f"add `{self.edit}`" if self.edit else "")
        says = " … ".join(self.says) or "writes the declaration"
        where = ["all six" if dialect in self.databases else "–" for dialect in DATABASES]
        cells = [f"**{self.name}**: {self.looks}", says, "; ".join(part for part in todo if part) or "nothing"]
        return f"| {' | '.join([*cells, self._queue(), *where])} |"

    def _recipe(self) -> str:
        if len(set(self.recipe.values())) == 1:
            return f"run `{next(iter(self.recipe.values()))}`"
        return "run " + " or ".join(f"`{text}` ({DATABASES[dialect]})" for dialect, text in self.recipe.items())

    def _queue(self) -> str:
        """Return the states, then the other arguments that were not requested."""
        ready, *rest = (self._state(name) for name in ("ready", "running", "done", "failed"))
        others = [
            f", `{name}={value!r}`"
            for name, value in self.expected.items()
            if name in (*MIRRORS, "where", "order") and f"--{name}" not in self.options
        ]
        return f"{ready} → {rest[0]} → {rest[1]} or {rest[2]}{''.join(others)}"

    def _state(self, name: str) -> str:
        status, state = str(self.expected.get("status")), self.expected[name]
        shown = format_state(state if isinstance(state, dict) else {status: state}) if name == "ready" else None
        if shown is None:
            shown = format_state(state) if isinstance(state, dict) else repr(state)
        other = [f" ({said[name]!r} on {DATABASES[where]})" for where, said in self.differs.items() if name in said]
        return f"`{shown}`{''.join(other)}"


def page_table() -> str:
    """Return the table of docs/how-to/adopt-a-table.md."""
    head = (
        f"| table | `adopt` says | you do | it becomes | {' | '.join(DATABASES.values())} |\n|---|---|---|---|---|---|"
    )
    return "\n".join([head, *(kind.page_row() for kind in KINDS)])


def states(ready: Any, running: Any, done: Any, failed: Any, status: str = "status", **others: str) -> dict[str, Any]:
    """Return the arguments of a queue."""
    return {"status": status, "ready": ready, "running": running, "done": done, "failed": failed, **others}


ROLE = Kind(
    "role without CREATE",
    "the worker's role may change rows and make no tables",
    "letters",
    "INSERT INTO letters (file_name) VALUES ('{work}')",
    states("new", "processing", "done", "failed", error="error"),
    advice="the owner runs what `migrate --sql --grant ROLE` prints; until then `doctor` and `worker` end with 4",
    role="GRANT SELECT, UPDATE ON letters TO {role};",
)
KINDS = [
    Kind(
        "Django",
        "a `varchar` status without a DEFAULT, texts that are NOT NULL, CHECKs on numbers, deferred foreign keys",
        "shop_invoice",
        """INSERT INTO shop_invoice (status, file_name, meta, attempts, error_message, created_at, customer_id)
VALUES ('pending', '{work}', '{{"n": 1}}', 0, '', '2024-03-01', 1)""",
        states("pending", "processing", "completed", "failed", started_at="started_at", error="error_message",
               attempts="attempts"),
        empty={"error_message": "", "attempts": 0},
    ),
    Kind(
        "Rails",
        "an enum type (on SQLite a CHECK) and a uuid key",
        "documents",
        """INSERT INTO documents (id, file_name, created_at, updated_at)
VALUES ('{uuid}', '{work}', '2024-03-01', '2024-03-01')""",
        states("queued", "processing", "processed", "errored", worker="locked_by", finished_at="processed_at"),
    ),
    Kind(
        "composite key",
        "`PRIMARY KEY (order_no, line_no)`",
        "order_lines",
        "INSERT INTO order_lines (order_no, line_no, file_name) VALUES ('A-{n}', {n}, '{work}')",
        states("open", "processing", "done", "failed", key="job_id", worker="worker", error="error"),
        says=("table 'order_lines' has a primary key of 2 columns (order_no, line_no); a job has one",),
        code=3,
        recipe={
            SQLITE: 'ALTER TABLE "order_lines" ADD COLUMN "job_id" TEXT GENERATED ALWAYS AS (json_array("order_no", '
            '"line_no")) VIRTUAL; CREATE UNIQUE INDEX "order_lines_job_id" ON "order_lines" ("job_id");',
            POSTGRES: 'ALTER TABLE "order_lines" ADD COLUMN "job_id" bigint GENERATED ALWAYS AS IDENTITY UNIQUE;',
        },
        options=("--key", "job_id"),
    ),
    Kind(
        "no key",
        "a table without a primary key",
        "imports",
        "INSERT INTO imports (file_name) VALUES ('{work}')",
        states("todo", "processing", "done", "failed", key="job_id", error="error"),
        says=("table 'imports' has no primary key",),
        code=3,
        recipe={
            SQLITE: 'ALTER TABLE "imports" ADD COLUMN "job_id" TEXT; '
            'UPDATE "imports" SET "job_id" = lower(hex(randomblob(16))); '
            'CREATE UNIQUE INDEX "imports_job_id" ON "imports" ("job_id"); '
            'CREATE TRIGGER "imports_job_id_new" AFTER INSERT ON "imports" WHEN NEW."job_id" IS NULL BEGIN '
            'UPDATE "imports" SET "job_id" = lower(hex(randomblob(16))) WHERE rowid = NEW.rowid; END;',
            POSTGRES: 'ALTER TABLE "imports" ADD COLUMN "job_id" bigint GENERATED ALWAYS AS IDENTITY UNIQUE;',
        },
        options=("--key", "job_id"),
    ),
    Kind(
        "quoted CamelCase",
        "Prisma, TypeORM, Entity Framework: names that must be quoted, values in upper case",
        "ImportJob",
        """INSERT INTO "ImportJob" ("id", "fileName") VALUES ('cuid{n}', '{work}')""",
        states("PENDING", "RUNNING", "COMPLETED", "FAILED", started_at="startedAt", finished_at="completedAt",
               error="errorMessage", order="createdAt"),
        differs={SQLITE: {"running": "PROCESSING"}},
        work="fileName",
        result="rowCount",
    ),
    Kind(
        "other schema",
        "`billing.invoices`, not on the search_path; the status is a number that a table of names explains",
        "billing.invoices",
        "INSERT INTO billing.invoices (file_name) VALUES ('{work}')",
        states(1, 2, 3, 4, status="status_id", error="last_error"),
    ),
    Kind(
        "view",
        "a view with a condition",
        "papers",
        "INSERT INTO papers (file_name) VALUES ('{work}')",
        states("new", "processing", "done", "failed", error="error"),
        first="open_invoices",
        says=(
            "'open_invoices' is a view: nothing says which of its columns identifies a row",
            "declare the queue on the table behind it ('papers'), with the view's condition as where=",
        ),
        code=3,
        edit="where=\"kind = 'invoice'\",",
    ),
    Kind(
        "partitioned",
        "by `created_at`, with `PRIMARY KEY (id, created_at)` and ids from one sequence",
        "events",
        "INSERT INTO events (file_name) VALUES ('{work}')",
        states("queued", "processing", "done", "failed", error="error"),
    ),
    Kind(
        "partitioned, own ids",
        "by `region`, with ids that the application chooses",
        "payments",
        """INSERT INTO payments (id, region, file_name)
VALUES ('p{n}', 'us', '{work}'), ('p{n}', 'eu', 'twin of {work}')""",
        states("pending", "processing", "completed", "failed", key="job_id", error="error"),
        says=("the key 'id' is unique only within each partition of 'payments': two rows may share it",),
        code=3,
        recipe={
            POSTGRES: 'ALTER TABLE "payments" ADD COLUMN "job_id" uuid NOT NULL DEFAULT gen_random_uuid(); '
            'CREATE UNIQUE INDEX "payments_job_id" ON "payments" ("job_id", "region");'
        },
        options=("--key", "job_id"),
    ),
    Kind(
        "partitioned by status",
        "a row moves to another partition when it ends",
        "messages",
        "INSERT INTO messages (file_name) VALUES ('{work}')",
        states("queued", "sending", "sent", "failed", error="error"),
        says=("running says status = 'processing', but", "no partition of relation"),
        code=3,
        options=("--running", "sending"),
    ),
    Kind(
        "triggers and CHECK",
        "a CHECK that lists the values, one that wants a result, a trigger that allows certain changes, a history",
        "shipments",
        "INSERT INTO shipments (file_name) VALUES ('{work}')",
        states("new", "packing", "shipped", "lost"),
        says=("failed says status = 'lost', but running → failed is refused", "change the trigger of shipments"),
        code=3,
        advice="let the trigger allow it",
        notes=("done says status = 'shipped', but running → done is refused",),
        warnings=("done says status = 'shipped'",),
        follows=("updated_at",),
    ),
    Kind(
        "NOT NULL mirrors",
        "every column NOT NULL, some with a DEFAULT and some without",
        "crawls",
        "INSERT INTO crawls (file_name, locked_by, attempts) VALUES ('{work}', '', 0)",
        states("queued", "processing", "done", "failed", worker="locked_by", started_at="locked_at",
               finished_at="finished_at", error="last_error", attempts="attempts"),
        empty={"locked_by": "", "last_error": "-", "attempts": 0, "locked_at": "1970-01-01",
               "finished_at": "1970-01-01"},
    ),
    Kind(
        "boolean pair",
        "`processed` and `failed` in place of a status",
        "mails",
        "INSERT INTO mails (file_name) VALUES ('{work}')",
        {
            "ready": {"processing": False, "processed": False, "failed": False},
            "running": {"processing": True},
            "done": {"processing": False, "processed": True},
            "failed": {"processing": False, "failed": True},
            "error": "error",
        },
        says=("processed and failed of 'mails' cannot say that a row is running",),
        code=3,
        recipe=dict.fromkeys(DATABASES, 'ALTER TABLE "mails" ADD COLUMN processing boolean NOT NULL DEFAULT false;'),
    ),
    Kind(
        "smallint",
        "numbers whose meaning only the application knows",
        "uploads",
        "INSERT INTO uploads (file_name) VALUES ('{work}')",
        states(0, 1, 2, 9, status="state", attempts="tries"),
        says=("which values of uploads.state mean running, done and failed?", "contains 0: 3, 2: 2, 9: 1, 5: 1"),
        code=3,
        options=("--ready", "0", "--running", "1", "--done", "2", "--failed", "9"),
        notes=("other values of state, which the queue ignores: 5 (1 row)",),
        empty={"tries": 0},
    ),
    Kind(
        "status NULL",
        "new rows have no status at all",
        "scans",
        "INSERT INTO scans (file_name) VALUES ('{work}')",
        states({"status": None}, "processing", "ok", "error", error="error"),
    ),
    Kind(
        "domain",
        "`CREATE DOMAIN job_state AS text CHECK (VALUE IN (…))`",
        "exports",
        "INSERT INTO exports (file_name) VALUES ('{work}')",
        states("queued", "working", "ok", "dead", status="state", worker="worker", error="error"),
    ),
    Kind(
        "generated column",
        "a status that the database computes from a code",
        "orders",
        "INSERT INTO orders (file_name) VALUES ('{work}')",
        states(10, 20, 30, 40, status="code", error="last_error"),
        says=("status of 'orders' is computed by the database and cannot be written", "use --status"),
        code=3,
        options=("--status", "code", "--ready", "10", "--running", "20", "--done", "30", "--failed", "40"),
        follows=("status", "error"),
    ),
    Kind(
        "soft delete",
        "Laravel: an enum that is a CHECK, `deleted_at`",
        "reports",
        "INSERT INTO reports (file_name) VALUES ('{work}')",
        states("pending", "processing", "processed", "failed", where="deleted_at IS NULL", attempts="attempts"),
        empty={"attempts": 0},
    ),
    Kind(
        "row-level security",
        "Supabase: a policy for each tenant, none for the worker's role",
        "tickets",
        "INSERT INTO tickets (file_name) VALUES ('{work}')",
        states("pending", "processing", "completed", "failed", error="error"),
        says=("row level security binds role", "add a policy for this role"),
        notes=("row level security binds role",),
        warnings=("row level security binds role",),
        advice="`CREATE POLICY worker ON tickets TO ROLE USING (true);`",
        role="GRANT CREATE ON SCHEMA public TO {role}; GRANT SELECT, UPDATE ON tickets TO {role};",
    ),
    ROLE,
]  # fmt: skip
