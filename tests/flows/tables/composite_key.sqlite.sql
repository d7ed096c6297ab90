CREATE TABLE order_lines ("order_no" varchar(10) NOT NULL, "line_no" integer NOT NULL, 
  "status" text NOT NULL DEFAULT 'open', "file_name" text NOT NULL, "result" integer, "worker" text, "error" text,
  PRIMARY KEY ("order_no", "line_no"));
INSERT INTO order_lines (order_no, line_no, status, file_name) VALUES ('A-1', 1, 'done', 'old.pdf'), ('A-1', 2, 'failed', 'old.pdf');
