CREATE TABLE uploads (id smallserial PRIMARY KEY, state smallint NOT NULL DEFAULT 0, file_name varchar(255), result smallint,
  tries smallint NOT NULL DEFAULT 0);
INSERT INTO uploads (state, file_name) VALUES (2, 'old'), (2, 'older'), (9, 'torn'), (5, 'on hold');
