CREATE TABLE orders (id serial PRIMARY KEY, code integer NOT NULL DEFAULT 10, file_name text, result integer,
  status text GENERATED ALWAYS AS (CASE code WHEN 10 THEN 'new' WHEN 20 THEN 'running' WHEN 30 THEN 'done' ELSE 'failed' END) STORED,
  error text GENERATED ALWAYS AS (CASE code WHEN 40 THEN 'it failed' END) STORED, last_error text);
INSERT INTO orders (code, file_name) VALUES (30, 'old');
