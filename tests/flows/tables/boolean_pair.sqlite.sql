CREATE TABLE mails (id integer PRIMARY KEY, file_name text, result integer, processed boolean NOT NULL DEFAULT 0,
  failed boolean NOT NULL DEFAULT 0, error text, created_at datetime DEFAULT CURRENT_TIMESTAMP);
INSERT INTO mails (file_name, processed, failed) VALUES ('old', 1, 0), ('torn', 0, 1);
