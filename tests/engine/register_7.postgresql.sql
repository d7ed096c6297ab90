-- The register as commit d87c1df7 created it in version 7, with rows that it wrote.
BEGIN;
SET LOCAL lock_timeout = '2s';
CREATE TABLE IF NOT EXISTS tabellion_schema (
  version integer PRIMARY KEY,
  applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE tabellion_attempts (
  queue text NOT NULL,
  key text NOT NULL,
  n integer NOT NULL,
  token uuid NOT NULL,
  attempt integer NOT NULL,
  crashes integer NOT NULL,
  deferrals integer NOT NULL,
  worker text NOT NULL,
  first_at timestamptz NOT NULL,
  claimed_at timestamptz NOT NULL,
  lease_until timestamptz NOT NULL,
  settled_at timestamptz,
  outcome text,
  retry_at timestamptz,
  error text,
  note text,
  cost double precision,
  PRIMARY KEY (queue, key, n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX tabellion_attempts_live
  ON tabellion_attempts (queue, key) WHERE settled_at IS NULL;
CREATE TABLE tabellion_workers (
  id text PRIMARY KEY,
  host text NOT NULL,
  pid integer NOT NULL,
  boot text NOT NULL,
  version text NOT NULL,
  queues text NOT NULL,
  slots integer NOT NULL,
  busy integer NOT NULL DEFAULT 0,
  done bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  retried bigint NOT NULL DEFAULT 0,
  started_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  stopped_at timestamptz,
  ending text
);
CREATE TABLE tabellion_queues (
  queue text PRIMARY KEY,
  paused_at timestamptz,
  reason text,
  running_limit integer,
  updated_at timestamptz NOT NULL
);
DO $$ DECLARE outsider text; BEGIN
  FOR outsider IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    EXECUTE format('REVOKE ALL ON tabellion_attempts, tabellion_workers, tabellion_queues FROM %I', outsider);
  END LOOP;
END $$;
INSERT INTO tabellion_schema (version) VALUES (1);
CREATE TABLE tabellion_gates (
  name text PRIMARY KEY,
  version bigint NOT NULL,
  state text NOT NULL,
  updated_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE tabellion_memos (
  key text PRIMARY KEY,
  model text NOT NULL,
  queue text NOT NULL,
  row_key text NOT NULL,
  token text NOT NULL,
  asked_at timestamptz NOT NULL,
  lease_until timestamptz,
  reply text,
  cost double precision,
  hint text,
  raw text
);
DO $$ DECLARE outsider text; BEGIN
  FOR outsider IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    EXECUTE format('REVOKE ALL ON tabellion_gates, tabellion_memos FROM %I', outsider);
  END LOOP;
END $$;
INSERT INTO tabellion_schema (version) VALUES (2);
CREATE INDEX tabellion_attempts_settled
  ON tabellion_attempts (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX tabellion_attempts_due
  ON tabellion_attempts (retry_at) WHERE retry_at IS NOT NULL;
INSERT INTO tabellion_schema (version) VALUES (3);
CREATE TABLE tabellion_counts (
  period integer NOT NULL,
  at bigint NOT NULL,
  queue text NOT NULL,
  writer text NOT NULL,
  done bigint NOT NULL,
  failed bigint NOT NULL,
  retried bigint NOT NULL,
  cost double precision NOT NULL,
  PRIMARY KEY (period, at, queue, writer)
) WITH (fillfactor = 50);
INSERT INTO tabellion_counts (period, at, queue, writer, done, failed, retried, cost)
SELECT 3600, floor(extract(epoch FROM settled_at) / 3600)::bigint * 3600, queue, '',
  count(*) FILTER (WHERE outcome = 'done'), count(*) FILTER (WHERE outcome IN ('failed', 'quarantined')),
  count(*) FILTER (WHERE outcome IN ('retried', 'crashed')), coalesce(sum(cost), 0)
FROM tabellion_attempts WHERE settled_at > now() - interval '30 days' GROUP BY 2, 3;
DROP INDEX IF EXISTS tabellion_attempts_settled;
DO $$ DECLARE outsider text; BEGIN
  FOR outsider IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    EXECUTE format('REVOKE ALL ON tabellion_counts FROM %I', outsider);
  END LOOP;
END $$;
DO $$ DECLARE held record; BEGIN
  FOR held IN SELECT grantee, privilege_type AS what FROM information_schema.role_table_grants
      WHERE table_schema = current_schema() AND table_name = 'tabellion_attempts' AND grantee <> current_user
        AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') LOOP
    EXECUTE format('GRANT %s ON tabellion_counts TO %s', held.what,
      CASE held.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(held.grantee) END);
  END LOOP;
END $$;
INSERT INTO tabellion_schema (version) VALUES (4);
ALTER TABLE tabellion_attempts ADD COLUMN error_code text;
ALTER TABLE tabellion_attempts ADD COLUMN error_params text;
INSERT INTO tabellion_schema (version) VALUES (5);
ALTER TABLE tabellion_attempts ADD COLUMN note_form text;
INSERT INTO tabellion_schema (version) VALUES (6);
CREATE TABLE tabellion_retention (
  name text PRIMARY KEY,
  position text,
  removed bigint NOT NULL DEFAULT 0,
  worker text,
  busy_until timestamptz,
  due_at timestamptz
);
CREATE TABLE tabellion_leftovers (
  id text PRIMARY KEY,
  rule text NOT NULL,
  detail text NOT NULL,
  due_at timestamptz NOT NULL
);
DO $$ DECLARE outsider text; BEGIN
  FOR outsider IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    EXECUTE format('REVOKE ALL ON tabellion_retention, tabellion_leftovers FROM %I', outsider);
  END LOOP;
END $$;
DO $$ DECLARE held record; BEGIN
  FOR held IN SELECT grantee, privilege_type AS what FROM information_schema.role_table_grants
      WHERE table_schema = current_schema() AND table_name = 'tabellion_memos' AND grantee <> current_user
        AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') LOOP
    EXECUTE format('GRANT %s ON tabellion_retention TO %s', held.what,
      CASE held.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(held.grantee) END);
  END LOOP;
END $$;
DO $$ DECLARE held record; BEGIN
  FOR held IN SELECT grantee, privilege_type AS what FROM information_schema.role_table_grants
      WHERE table_schema = current_schema() AND table_name = 'tabellion_memos' AND grantee <> current_user
        AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') LOOP
    EXECUTE format('GRANT %s ON tabellion_leftovers TO %s', held.what,
      CASE held.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(held.grantee) END);
  END LOOP;
END $$;
INSERT INTO tabellion_schema (version) VALUES (7);
INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until)
VALUES ('tasks', '4', 1, '1c4b8035-476f-454d-ae1e-caaf3f2f2119', 1, 0, 0, 'w1', '2026-11-19 02:08:23.611+00:00', '2026-11-19 02:08:23.611+00:00', '2026-11-19 02:09:23.611+00:00');
INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until, settled_at, outcome, error, error_code, error_params)
VALUES ('tasks', '1', 1, 'a3f3c6ec-41d0-40d4-a4a5-7f6ed5515de7', 1, 0, 0, 'w1', '2026-11-19 02:08:23.610+00:00', '2026-11-19 02:08:23.610+00:00', '2026-11-19 02:09:23.610+00:00', '2026-11-19 02:08:23.640+00:00', 'retried', 'timed out after 5 s', 'attempt.timed_out', '{"n": 5.0}');
INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until, settled_at, outcome, error)
VALUES ('tasks', '2', 1, 'b2c6dbef-210d-44cf-a90e-4d4a9916d647', 1, 0, 0, 'w1', '2026-11-19 02:08:23.611+00:00', '2026-11-19 02:08:23.611+00:00', '2026-11-19 02:09:23.611+00:00', '2026-11-19 02:08:23.644+00:00', 'failed', 'empty PDF');
INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until, settled_at, outcome, cost)
VALUES ('tasks', '3', 1, 'b972d0dd-5861-4601-b6fc-0615c703263e', 1, 0, 0, 'w1', '2026-11-19 02:08:23.611+00:00', '2026-11-19 02:08:23.611+00:00', '2026-11-19 02:09:23.611+00:00', '2026-11-19 02:08:23.650+00:00', 'done', 0.25);
INSERT INTO tabellion_workers (id, host, pid, boot, version, queues, slots, busy, done, failed, retried, started_at, seen_at)
VALUES ('w1', 'host', 4711, 'boot', '0.1.0', 'tasks', 4, 1, 0, 0, 0, '2026-11-19 02:08:23.563+00:00', '2026-11-19 02:08:23.563+00:00');
INSERT INTO tabellion_queues (queue, running_limit, updated_at)
VALUES ('tasks', 3, '2026-11-19 02:08:23.651+00:00');
INSERT INTO tabellion_memos (key, model, queue, row_key, token, asked_at, reply, cost)
VALUES ('sha256:1', 'local', 'tasks', '3', 'b972d0dd-5861-4601-b6fc-0615c703263e', '2026-11-19 02:08:23.620+00:00', '{"text":"x"}', 0.25);
INSERT INTO tabellion_counts (period, at, queue, writer, done, failed, retried, cost)
VALUES (5, 1795054100, 'tasks', '244dc079', 1, 1, 1, 0.25);
INSERT INTO tabellion_leftovers (id, rule, detail, due_at)
VALUES ('01m7rrzv28fsqjbstarvn8b60q', 'documents', 'blobs/1', '2026-11-19 02:09:23.627+00:00');
COMMIT;
