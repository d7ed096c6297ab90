-- The register as commit d87c1df7 created it in version 7, with rows that it wrote.
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS tabellion_schema (
  version INTEGER PRIMARY KEY,
  applied_at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0)
);
CREATE TABLE tabellion_attempts (
  queue TEXT NOT NULL,
  key TEXT NOT NULL,
  n INTEGER NOT NULL,
  token TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  deferrals INTEGER NOT NULL,
  worker TEXT NOT NULL,
  first_at REAL NOT NULL,
  claimed_at REAL NOT NULL,
  lease_until REAL NOT NULL,
  settled_at REAL,
  outcome TEXT,
  retry_at REAL,
  error TEXT,
  note TEXT,
  cost REAL,
  PRIMARY KEY (queue, key, n)
) WITHOUT ROWID;
CREATE UNIQUE INDEX tabellion_attempts_live
  ON tabellion_attempts (queue, key) WHERE settled_at IS NULL;
CREATE TABLE tabellion_workers (
  id TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  boot TEXT NOT NULL,
  version TEXT NOT NULL,
  queues TEXT NOT NULL,
  slots INTEGER NOT NULL,
  busy INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  retried INTEGER NOT NULL DEFAULT 0,
  started_at REAL NOT NULL,
  seen_at REAL NOT NULL,
  stopped_at REAL,
  ending TEXT
);
CREATE TABLE tabellion_queues (
  queue TEXT PRIMARY KEY,
  paused_at REAL,
  reason TEXT,
  running_limit INTEGER,
  updated_at REAL NOT NULL
);
INSERT INTO tabellion_schema (version) VALUES (1);
CREATE TABLE tabellion_gates (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT NOT NULL,
  updated_at REAL NOT NULL
);
CREATE TABLE tabellion_memos (
  key TEXT PRIMARY KEY,
  model TEXT NOT NULL,
  queue TEXT NOT NULL,
  row_key TEXT NOT NULL,
  token TEXT NOT NULL,
  asked_at REAL NOT NULL,
  lease_until REAL,
  reply TEXT,
  cost REAL,
  hint TEXT,
  raw TEXT
);
INSERT INTO tabellion_schema (version) VALUES (2);
CREATE INDEX tabellion_attempts_settled
  ON tabellion_attempts (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX tabellion_attempts_due
  ON tabellion_attempts (retry_at) WHERE retry_at IS NOT NULL;
INSERT INTO tabellion_schema (version) VALUES (3);
CREATE TABLE tabellion_counts (
  period INTEGER NOT NULL,
  at INTEGER NOT NULL,
  queue TEXT NOT NULL,
  writer TEXT NOT NULL,
  done INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  retried INTEGER NOT NULL,
  cost REAL NOT NULL,
  PRIMARY KEY (period, at, queue, writer)
) WITHOUT ROWID;
INSERT INTO tabellion_counts (period, at, queue, writer, done, failed, retried, cost)
SELECT 3600, CAST(settled_at / 3600 AS INTEGER) * 3600, queue, '', sum(outcome = 'done'),
  sum(outcome IN ('failed', 'quarantined')), sum(outcome IN ('retried', 'crashed')), coalesce(sum(cost), 0)
FROM tabellion_attempts
WHERE settled_at > (julianday('now') - 2440587.5) * 86400.0 - 30 * 86400.0 GROUP BY 2, 3;
DROP INDEX IF EXISTS tabellion_attempts_settled;
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
  busy_until REAL,
  due_at REAL
);
CREATE TABLE tabellion_leftovers (
  id text PRIMARY KEY,
  rule text NOT NULL,
  detail text NOT NULL,
  due_at REAL NOT NULL
);
INSERT INTO tabellion_schema (version) VALUES (7);
INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until, settled_at, outcome, error, error_code, error_params)
VALUES ('tasks', '1', 1, '787db5aff5e8c698ad1ece69caef146f', 1, 0, 0, 'w1', 1795054101.142, 1795054101.142, 1795054161.142, 1795054101.188, 'retried', 'timed out after 5 s', 'attempt.timed_out', '{"n": 5.0}');
INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until, settled_at, outcome, error)
VALUES ('tasks', '2', 1, 'db2e9a97e215c18c59e481f59d0a4d0a', 1, 0, 0, 'w1', 1795054101.142, 1795054101.142, 1795054161.142, 1795054101.191, 'failed', 'empty PDF');
INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until, settled_at, outcome, cost)
VALUES ('tasks', '3', 1, 'cae791365d4c60065f997a40413d7b85', 1, 0, 0, 'w1', 1795054101.142, 1795054101.142, 1795054161.142, 1795054101.194, 'done', 0.25);
INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until)
VALUES ('tasks', '4', 1, 'd39e8542fd55725d34561a2c323d8bc6', 1, 0, 0, 'w1', 1795054101.142, 1795054101.142, 1795054161.142);
INSERT INTO tabellion_workers (id, host, pid, boot, version, queues, slots, busy, done, failed, retried, started_at, seen_at)
VALUES ('w1', 'host', 4711, 'boot', '0.1.0', 'tasks', 4, 1, 0, 0, 0, 1795054101.136, 1795054101.138);
INSERT INTO tabellion_queues (queue, running_limit, updated_at)
VALUES ('tasks', 3, 1795054101.197);
INSERT INTO tabellion_memos (key, model, queue, row_key, token, asked_at, reply, cost)
VALUES ('sha256:1', 'local', 'tasks', '3', 'cae791365d4c60065f997a40413d7b85', 1795054101.157, '{"text":"x"}', 0.25);
INSERT INTO tabellion_counts (period, at, queue, writer, done, failed, retried, cost)
VALUES (5, 1795054100, 'tasks', '', 1, 1, 1, 0.25);
INSERT INTO tabellion_leftovers (id, rule, detail, due_at)
VALUES ('01m7rrzrnd6kkxhwemyc1zprdx', 'documents', 'blobs/1', 1795054161.166);
COMMIT;
