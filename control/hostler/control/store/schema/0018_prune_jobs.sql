-- What the pruner of jobs looks through: those that are over, the oldest first.
CREATE INDEX jobs_over ON jobs (gone_ms) WHERE gone_ms > 0;

-- How long the first in line has been overtaken: since a task of it was placed last, or began to wait.
ALTER TABLE jobs ADD COLUMN waiting_since_ms INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET waiting_since_ms = created_at_ms WHERE pending > 0;
