CREATE TABLE payments (id text NOT NULL, region text NOT NULL, status text NOT NULL DEFAULT 'pending',
  file_name text, result integer, error text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE payments_eu PARTITION OF payments FOR VALUES IN ('eu');
CREATE TABLE payments_us PARTITION OF payments FOR VALUES IN ('us');
INSERT INTO payments (id, region, status, file_name) VALUES ('p1', 'eu', 'completed', 'x'), ('p1', 'us', 'failed', 'x');
