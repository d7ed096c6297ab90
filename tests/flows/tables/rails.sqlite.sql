CREATE TABLE "documents" ("id" varchar NOT NULL PRIMARY KEY, "status" varchar DEFAULT 'queued' NOT NULL,
  "file_name" varchar, "result" integer, "payload" json DEFAULT '{}' NOT NULL, "lock_version" integer DEFAULT 0 NOT NULL,
  "locked_by" varchar, "processed_at" datetime(6), "created_at" datetime(6) NOT NULL, "updated_at" datetime(6) NOT NULL,
  CONSTRAINT chk_rails_1a2b CHECK (status IN ('queued', 'processing', 'processed', 'errored')));
INSERT INTO documents (id, status, created_at, updated_at)
  VALUES ('5f0c9d7e-0000-4000-8000-000000000000', 'processed', '2024-01-01', '2024-01-01');
