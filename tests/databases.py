"""Empty PostgreSQL databases for one test after the other: emptying the last one is faster than creating another."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import asyncpg

from tests.servers import Postgres
from tests.workers import KEPT

USES = 200  #: of one database, before its catalogue has grown so much that a new one is quicker
PATIENCE = 0.2  #: seconds for the sessions of the test before to end
OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
#: Whether nothing but schemas was changed in it: only those are taken away between two tests.
PLAIN = """SELECT datacl IS NULL
  AND NOT EXISTS (SELECT FROM pg_db_role_setting WHERE setdatabase = d.oid)
  AND NOT EXISTS (SELECT FROM pg_default_acl)
  AND NOT EXISTS (SELECT FROM pg_event_trigger)
  AND NOT EXISTS (SELECT FROM pg_extension WHERE extname <> 'plpgsql')
  AND NOT EXISTS (SELECT FROM pg_foreign_server)
  AND NOT EXISTS (SELECT FROM pg_largeobject_metadata)
  AND NOT EXISTS (SELECT FROM pg_publication)
  FROM pg_database d WHERE datname = current_database()"""
#: As it was made, with the rights on `public` that PostgreSQL gives it since version 15.
EMPTY = r"""SET client_min_messages = warning;
DO $$ DECLARE one text; BEGIN
  FOR one IN SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema' LOOP
    EXECUTE format('DROP SCHEMA %I CASCADE', one);
  END LOOP;
END $$;
CREATE SCHEMA public AUTHORIZATION pg_database_owner;
GRANT USAGE ON SCHEMA public TO PUBLIC"""


class Databases:
    """Hands out one empty database at a time, each with a name that no other one of this server had."""

    def __init__(self, server: Postgres, prefix: str = "test") -> None:
        self._server, self._prefix = server, prefix
        self._made = self._uses = 0
        self._name = ""
        self._loop = asyncio.new_event_loop()
        self._thread = ThreadPoolExecutor(1, "databases")  # the test's own thread may have a running loop
        self._admin: asyncpg.Connection | None = None

    def next(self) -> str:
        """Return the URL of an empty database; the one before may be gone."""
        old, self._made = self._name, self._made + 1
        KEPT.close(self._url(old))
        self._name = f"{self._prefix}{self._made}"
        if old and self._uses < USES and self._run(self._recycled(old, self._name)):
            self._uses += 1
            return self._url(self._name)
        self._uses = 1
        return self._server.create_database(self._name)

    def close(self) -> None:
        """Disconnect from the server."""
        if self._admin is not None:
            self._run(self._admin.close())
        self._thread.shutdown()
        self._loop.close()

    def _run(self, work: object) -> bool:
        return bool(self._thread.submit(self._loop.run_until_complete, work).result())  # type: ignore[arg-type]

    def _url(self, name: str) -> str:
        return self._server.url.removesuffix("postgres") + name

    async def _recycled(self, old: str, new: str) -> bool:
        """Return whether the last database was emptied and renamed; one still in use is left alone."""
        try:
            connection = await asyncpg.connect(self._url(old), statement_cache_size=0)
        except (asyncpg.PostgresError, OSError):
            return False
        try:
            deadline = time.monotonic() + PATIENCE
            while await connection.fetchval(OTHERS):
                if time.monotonic() > deadline:
                    return False
                await asyncio.sleep(0.005)
            if not await connection.fetchval(PLAIN):
                return False
            await connection.execute(EMPTY)
        finally:
            await connection.close()
        if self._admin is None:
            self._admin = await asyncpg.connect(self._server.url, statement_cache_size=0)
        try:
            await self._admin.execute(f"ALTER DATABASE {old} RENAME TO {new}")
        except asyncpg.ObjectInUseError:
            return False
        return True
