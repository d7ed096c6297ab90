CREATE TABLE crawls (id bigserial PRIMARY KEY, status text NOT NULL DEFAULT 'queued', file_name text NOT NULL,
  result integer NOT NULL DEFAULT 0, locked_by varchar(12) NOT NULL, last_error text NOT NULL DEFAULT '-', attempts integer NOT NULL,
  locked_at timestamptz NOT NULL DEFAULT '1970-01-01', finished_at timestamptz NOT NULL DEFAULT '1970-01-01');
INSERT INTO crawls (status, file_name, locked_by, attempts) VALUES ('done', 'old', '', 1);
