CREATE TABLE events (id bigserial, created_at timestamptz NOT NULL DEFAULT now(), status text NOT NULL DEFAULT 'queued',
  file_name text, result integer, error text, PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at);
CREATE TABLE events_2024 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE events_rest PARTITION OF events DEFAULT;
INSERT INTO events (created_at, status, file_name) VALUES ('2024-02-01', 'done', 'old.pdf'), ('2024-02-02', 'failed', 'torn.pdf');
