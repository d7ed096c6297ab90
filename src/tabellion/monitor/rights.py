"""The rights that a database role needs: which are missing, and the GRANTs for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tabellion.engine import register_tables, sql
from tabellion.engine.queue import Queue
from tabellion.engine.store import Store
from tabellion.engine.tables.table import Table
from tabellion.errors import DeclarationProblem, Forbidden

READ = ("SELECT",)
WRITE = ("SELECT", "INSERT", "UPDATE")
ALL = (*WRITE, "DELETE")
#: The rights that are required on each table of the register; old workers and memos are deleted.
REGISTER: dict[str, tuple[str, ...]] = {
    "tabellion_schema": READ,
    **dict.fromkeys(register_tables.TABLES, WRITE),
    "tabellion_workers": ALL,
    "tabellion_memos": ALL,
    "tabellion_leftovers": ALL,
}
#: The rights that are granted: old attempts, counts and snapshots are deleted too, but a worker can work without.
GRANTED = REGISTER | dict.fromkeys(("tabellion_attempts", "tabellion_counts", "tabellion_snapshots"), ALL)


@dataclass(frozen=True, slots=True)
class MissingRight:
    """One right that the role lacks."""

    queue: str | None  #: None for the register
    problem: DeclarationProblem


async def missing_rights(store: Store, queues: Sequence[Queue]) -> list[MissingRight]:
    """Every right that the connected role lacks; read from the catalog, so the tables need not exist."""
    if store.dialect != "postgresql":
        return []
    rows = await store.database.fetch("SELECT current_user::text AS role, current_schema()::text AS schema")
    role, schema = rows[0]["role"], rows[0]["schema"]
    found = await _register(store, role, schema)
    for queue in queues:
        problem = await _table(store, role, queue)
        if problem is not None:
            found.append(MissingRight(queue.name, problem))
    return found


async def _register(store: Store, role: str, schema: str | None) -> list[MissingRight]:
    fix = f"ask a role that may do so to run the SQL that `tabellion migrate --sql --grant {role}` prints"
    names = list(REGISTER)
    rows = await store.database.fetch(
        """SELECT n.name, to_regclass(n.name) IS NOT NULL AS there,
  array(SELECT r.right_name FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r (right_name)
        WHERE to_regclass(n.name) IS NOT NULL AND NOT has_table_privilege(to_regclass(n.name), r.right_name)) AS missing
FROM unnest($1::text[]) AS n (name)""",
        names,
    )
    if not any(row["there"] for row in rows):
        if schema is None:
            problem = f"role {role} may not use any schema of its search_path, so the register has no schema"
            return [MissingRight(None, DeclarationProblem(problem, fix))]
        allowed = await store.database.fetch("SELECT has_schema_privilege($1, 'CREATE') AS allowed", schema)
        if allowed[0]["allowed"]:
            return []
        return [
            MissingRight(None, DeclarationProblem(f"role {role} may not create the register in schema {schema}", fix))
        ]
    lacking = [
        f"{' and '.join(needed)} on {row['name']}"
        for row in rows
        if (needed := [right for right in REGISTER[row["name"]] if right in row["missing"]])
    ]
    if not lacking:
        return []
    return [
        MissingRight(
            None, DeclarationProblem(f"role {role} may not use the register: {', '.join(lacking)} is missing", fix)
        )
    ]


async def _table(store: Store, role: str, queue: Queue) -> DeclarationProblem | None:
    fix = " ".join(table_grants(role, [queue]))
    try:
        table = await store.table(queue.table)
    except Forbidden:
        schema = queue.table.rpartition(".")[0]
        return DeclarationProblem(f"role {role} may not use schema {schema}", fix)
    if table is None:
        return None  # the check of the declaration reports it
    written = {name for changes in queue.changes.values() for name in changes} | set(queue.mirrors.values())
    rows = await store.database.fetch(
        """SELECT has_table_privilege($1, 'SELECT') AS reads,
  (SELECT bool_and(has_column_privilege($1, c.name, 'UPDATE')) FROM unnest($2::text[]) AS c (name)) AS writes""",
        sql.name(queue.table),
        sorted(name for name in written if name in table.columns and not table.columns[name].generated),
    )
    missing = [right for right, allowed in (("SELECT", rows[0]["reads"]), ("UPDATE", rows[0]["writes"])) if not allowed]
    return DeclarationProblem(f"role {role} may not {' and '.join(missing)} {queue.table}", fix) if missing else None


async def bound_by_row_security(store: Store, table: Table) -> str:
    """The connected role if row level security limits the rows it sees; empty if it sees all."""
    if not table.row_security:
        return ""
    rows = await store.database.fetch(
        "SELECT current_user::text AS role, row_security_active(to_regclass($1)) AS bound", sql.name(table.name)
    )
    return str(rows[0]["role"]) if rows[0]["bound"] else ""


def register_grants(role: str, schema: str = "public") -> list[str]:
    """The GRANTs for using the register."""
    to = sql.column(role)
    right_sets = dict.fromkeys(GRANTED.values())
    return [
        f"GRANT USAGE ON SCHEMA {sql.column(schema)} TO {to};",
        *(
            f"GRANT {', '.join(rights)} ON {', '.join(name for name in GRANTED if GRANTED[name] == rights)} TO {to};"
            for rights in right_sets
        ),
    ]


def table_grants(role: str, queues: Iterable[Queue]) -> list[str]:
    """The GRANTs for working these queues."""
    to = sql.column(role)
    statements = []
    for table in dict.fromkeys(queue.table for queue in queues):
        schema = table.rpartition(".")[0]
        if schema:
            statements.append(f"GRANT USAGE ON SCHEMA {sql.column(schema)} TO {to};")
        statements.append(f"GRANT SELECT, UPDATE ON {sql.name(table)} TO {to};")
    return list(dict.fromkeys(statements))
