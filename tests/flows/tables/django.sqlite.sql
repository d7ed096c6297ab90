CREATE TABLE "shop_customer" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(80) NOT NULL);
CREATE TABLE "shop_invoice" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "status" varchar(12) NOT NULL,
  "file_name" varchar(100) NOT NULL, "result" decimal NULL, "meta" text NOT NULL CHECK ((JSON_VALID("meta") OR "meta" IS NULL)),
  "attempts" smallint unsigned NOT NULL CHECK ("attempts" >= 0), "error_message" varchar(60) NOT NULL,
  "started_at" datetime NULL, "created_at" datetime NOT NULL,
  "customer_id" bigint NOT NULL REFERENCES "shop_customer" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE INDEX "shop_invoice_customer_id_0a" ON "shop_invoice" ("customer_id");
INSERT INTO shop_customer (name) VALUES ('Ada');
INSERT INTO shop_invoice (status, file_name, meta, attempts, error_message, created_at, customer_id) VALUES
  ('completed', 'old.pdf', '{}', 1, '', '2024-02-01', 1), ('failed', 'torn.pdf', '{}', 3, 'torn', '2024-02-02', 1);
