CREATE SCHEMA billing;
CREATE TABLE billing.states (id integer PRIMARY KEY, label text NOT NULL);
INSERT INTO billing.states VALUES (1, 'new'), (2, 'in progress'), (3, 'done'), (4, 'error');
CREATE TABLE billing.invoices (id serial PRIMARY KEY, status_id integer NOT NULL DEFAULT 1 REFERENCES billing.states,
  file_name text NOT NULL, result integer, last_error text, created_at timestamptz DEFAULT now());
INSERT INTO billing.invoices (status_id, file_name) VALUES (3, 'old.pdf');
