CREATE TABLE imports (status text NOT NULL DEFAULT 'todo', file_name text, result integer, error text);
INSERT INTO imports (status, file_name) VALUES ('done', 'old.csv');
