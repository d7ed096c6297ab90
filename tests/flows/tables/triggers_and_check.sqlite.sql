CREATE TABLE shipments (id INTEGER PRIMARY KEY, status TEXT NOT NULL DEFAULT 'new' CHECK (status IN ('new', 'packing', 'shipped', 'lost')),
  file_name TEXT, result TEXT, updated_at TEXT, CHECK (status <> 'shipped' OR result IS NOT NULL));
CREATE TABLE shipments_history (shipment INTEGER, status TEXT);
CREATE TRIGGER guard BEFORE UPDATE OF status ON shipments WHEN NEW.status <> OLD.status
  AND OLD.status || '>' || NEW.status NOT IN ('new>packing', 'packing>shipped')
BEGIN SELECT RAISE(ABORT, 'this shipment cannot become that'); END;
CREATE TRIGGER history AFTER UPDATE OF status ON shipments WHEN NEW.status <> OLD.status
BEGIN INSERT INTO shipments_history VALUES (NEW.id, NEW.status); END;
INSERT INTO shipments (status, file_name, result) VALUES ('shipped', 'old.pdf', 'ok');
