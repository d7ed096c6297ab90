CREATE TABLE letters (id serial PRIMARY KEY, status text NOT NULL DEFAULT 'new', file_name text, result integer, error text);
INSERT INTO letters (status, file_name) VALUES ('done', 'old.pdf');
