-- What the root decided, in order; and what is wrong with a node that no task can mend.

CREATE TABLE keysets (
  version INTEGER PRIMARY KEY,
  control_epoch INTEGER NOT NULL,
  keyset BLOB NOT NULL,
  published_at_ms INTEGER NOT NULL
) STRICT;

ALTER TABLE nodes ADD COLUMN hold TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN drift TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN instance_id TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN past_instances TEXT NOT NULL DEFAULT '[]';
