CREATE TABLE "reports" ("id" bigserial primary key not null, "file_name" varchar(255) not null, "result" integer,
  "status" varchar(255) check ("status" in ('pending', 'processing', 'processed', 'failed')) not null default 'pending',
  "attempts" integer not null default '0', "deleted_at" timestamp(0) without time zone null,
  "created_at" timestamp(0) without time zone null, "updated_at" timestamp(0) without time zone null);
INSERT INTO reports (file_name, deleted_at) VALUES ('deleted.pdf', '2024-01-01');
