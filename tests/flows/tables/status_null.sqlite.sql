CREATE TABLE scans (id INTEGER PRIMARY KEY, status TEXT, file_name TEXT, result INTEGER, error TEXT);
INSERT INTO scans (status, file_name) VALUES ('ok', 'old.pdf'), ('error', 'torn.pdf');
