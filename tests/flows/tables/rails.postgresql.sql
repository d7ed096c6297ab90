CREATE TYPE document_status AS ENUM ('queued', 'processing', 'processed', 'errored');
CREATE TABLE documents (id uuid DEFAULT gen_random_uuid() NOT NULL, status document_status DEFAULT 'queued' NOT NULL,
  file_name character varying, result integer, payload jsonb DEFAULT '{}' NOT NULL, lock_version integer DEFAULT 0 NOT NULL,
  locked_by character varying, processed_at timestamp(6) without time zone,
  created_at timestamp(6) without time zone NOT NULL, updated_at timestamp(6) without time zone NOT NULL);
ALTER TABLE ONLY documents ADD CONSTRAINT documents_pkey PRIMARY KEY (id);
INSERT INTO documents (status, created_at, updated_at) VALUES ('processed', '2024-01-01', '2024-01-01');
