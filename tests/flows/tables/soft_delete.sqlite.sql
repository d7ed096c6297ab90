CREATE TABLE "reports" ("id" integer primary key autoincrement not null, "file_name" varchar not null, "result" integer,
  "status" varchar check ("status" in ('pending', 'processing', 'processed', 'failed')) not null default 'pending',
  "attempts" integer not null default '0', "deleted_at" datetime, "created_at" datetime, "updated_at" datetime);
INSERT INTO reports (file_name, deleted_at) VALUES ('deleted.pdf', '2024-01-01');
