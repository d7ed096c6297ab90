CREATE TABLE messages (id bigint GENERATED ALWAYS AS IDENTITY, status text NOT NULL DEFAULT 'queued', file_name text, result integer,
  error text, PRIMARY KEY (id, status)) PARTITION BY LIST (status);
CREATE TABLE messages_open PARTITION OF messages FOR VALUES IN ('queued', 'sending');
CREATE TABLE messages_closed PARTITION OF messages FOR VALUES IN ('sent', 'failed');
INSERT INTO messages (status, file_name) VALUES ('sent', 'old'), ('failed', 'torn');
