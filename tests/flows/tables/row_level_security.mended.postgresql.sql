CREATE POLICY worker ON tickets TO {role} USING (true);
