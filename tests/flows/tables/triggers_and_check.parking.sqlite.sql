CREATE TRIGGER never_lost BEFORE UPDATE OF status ON shipments WHEN NEW.status = 'lost' AND NEW.file_name = 'bad'
BEGIN SELECT RAISE(ABORT, 'bad parcels are never lost'); END;
