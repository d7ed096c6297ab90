CREATE TABLE tickets (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), tenant text NOT NULL DEFAULT 'a',
  status text NOT NULL DEFAULT 'pending', file_name text, result integer, error text, created_at timestamptz NOT NULL DEFAULT now());
ALTER TABLE tickets ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenants ON tickets USING (tenant = current_setting('app.tenant', true));
INSERT INTO tickets (status, file_name) VALUES ('completed', 'old.pdf');
