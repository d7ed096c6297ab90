CREATE OR REPLACE FUNCTION guard_shipments() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (('new', 'packing'), ('packing', 'shipped'), ('packing', 'lost'), ('packing', 'new'), ('lost', 'new'), ('new', 'lost')) THEN
    RAISE EXCEPTION 'shipment %: % cannot become %', OLD.id, OLD.status, NEW.status;
  END IF;
  NEW.updated_at := now(); RETURN NEW;
END $$;
