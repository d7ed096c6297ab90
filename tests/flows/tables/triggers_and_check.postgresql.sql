CREATE TABLE shipments (id bigserial PRIMARY KEY, status text NOT NULL DEFAULT 'new' CHECK (status IN ('new', 'packing', 'shipped', 'lost')),
  file_name text, result text, updated_at timestamptz, CHECK (status <> 'shipped' OR result IS NOT NULL));
CREATE TABLE shipments_history (shipment bigint, status text);
CREATE FUNCTION guard_shipments() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (('new', 'packing'), ('packing', 'shipped')) THEN
    RAISE EXCEPTION 'shipment %: % cannot become %', OLD.id, OLD.status, NEW.status;
  END IF;
  NEW.updated_at := now(); RETURN NEW;
END $$;
CREATE FUNCTION keep_history() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO shipments_history VALUES (NEW.id, NEW.status); RETURN NULL; END $$;
CREATE TRIGGER guard BEFORE UPDATE ON shipments FOR EACH ROW EXECUTE FUNCTION guard_shipments();
CREATE TRIGGER history AFTER UPDATE ON shipments FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION keep_history();
INSERT INTO shipments (status, file_name, result) VALUES ('shipped', 'old.pdf', 'ok');
