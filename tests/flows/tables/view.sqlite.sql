CREATE TABLE papers (id INTEGER PRIMARY KEY, kind TEXT NOT NULL DEFAULT 'invoice', status TEXT NOT NULL DEFAULT 'new', file_name TEXT,
  result INTEGER, error TEXT);
CREATE VIEW open_invoices AS SELECT * FROM papers WHERE kind = 'invoice';
INSERT INTO papers (kind, status, file_name) VALUES ('letter', 'new', 'letter.pdf'), ('invoice', 'done', 'old.pdf');
