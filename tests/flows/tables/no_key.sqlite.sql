CREATE TABLE imports (status TEXT NOT NULL DEFAULT 'todo', file_name TEXT, result INTEGER, error TEXT);
INSERT INTO imports (status, file_name) VALUES ('done', 'old.csv');
