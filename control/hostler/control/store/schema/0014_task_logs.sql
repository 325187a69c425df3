-- OB-07: whether a newline came after a line, the phase of a workload, and how much each operation has written.
ALTER TABLE log_lines ADD COLUMN partial INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log_lines ADD COLUMN phase TEXT NOT NULL DEFAULT '';

CREATE TABLE log_usage (
  operation_id TEXT PRIMARY KEY,
  cost INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  dropped INTEGER NOT NULL
) STRICT;
