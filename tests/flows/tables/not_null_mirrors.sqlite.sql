CREATE TABLE crawls (id INTEGER PRIMARY KEY AUTOINCREMENT, status TEXT NOT NULL DEFAULT 'queued', file_name TEXT NOT NULL,
  result INTEGER NOT NULL DEFAULT 0, locked_by VARCHAR(12) NOT NULL, last_error TEXT NOT NULL DEFAULT '-', attempts INTEGER NOT NULL,
  locked_at TEXT NOT NULL DEFAULT '1970-01-01', finished_at TEXT NOT NULL DEFAULT '1970-01-01');
INSERT INTO crawls (status, file_name, locked_by, attempts) VALUES ('done', 'old', '', 1);
