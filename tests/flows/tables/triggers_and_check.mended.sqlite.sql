DROP TRIGGER guard; CREATE TRIGGER guard BEFORE UPDATE OF status ON shipments WHEN NEW.status <> OLD.status
  AND OLD.status || '>' || NEW.status NOT IN
    ('new>packing', 'packing>shipped', 'packing>lost', 'packing>new', 'lost>new', 'new>lost')
BEGIN SELECT RAISE(ABORT, 'this shipment cannot become that'); END;
