CREATE TABLE orders (id INTEGER PRIMARY KEY, code INTEGER NOT NULL DEFAULT 10, file_name TEXT, result INTEGER,
  status TEXT GENERATED ALWAYS AS (CASE code WHEN 10 THEN 'new' WHEN 20 THEN 'running' WHEN 30 THEN 'done' ELSE 'failed' END) VIRTUAL,
  error TEXT GENERATED ALWAYS AS (CASE code WHEN 40 THEN 'it failed' END) VIRTUAL, last_error TEXT);
INSERT INTO orders (code, file_name) VALUES (30, 'old');
