CREATE TABLE mails (id serial PRIMARY KEY, file_name text, result integer, processed boolean NOT NULL DEFAULT false,
  failed boolean NOT NULL DEFAULT false, error text, created_at timestamptz DEFAULT now());
INSERT INTO mails (file_name, processed, failed) VALUES ('old', true, false), ('torn', false, true);
