CREATE TABLE papers (id serial PRIMARY KEY, kind text NOT NULL DEFAULT 'invoice', status text NOT NULL DEFAULT 'new', file_name text,
  result integer, error text);
CREATE VIEW open_invoices AS SELECT * FROM papers WHERE kind = 'invoice';
INSERT INTO papers (kind, status, file_name) VALUES ('letter', 'new', 'letter.pdf'), ('invoice', 'done', 'old.pdf');
