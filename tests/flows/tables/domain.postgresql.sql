CREATE DOMAIN job_state AS text NOT NULL DEFAULT 'queued' CHECK (VALUE IN ('queued', 'working', 'ok', 'dead'));
CREATE DOMAIN short_text AS varchar(20);
CREATE TABLE exports (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state job_state, file_name short_text, result integer,
  error short_text, worker short_text);
INSERT INTO exports (state, file_name) VALUES ('ok', 'old');
