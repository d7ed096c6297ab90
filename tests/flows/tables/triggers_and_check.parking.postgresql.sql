CREATE FUNCTION never_lost() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'bad parcels are never lost'; END $$;
CREATE TRIGGER never_lost BEFORE UPDATE ON shipments FOR EACH ROW
  WHEN (NEW.status = 'lost' AND NEW.file_name = 'bad') EXECUTE FUNCTION never_lost();
