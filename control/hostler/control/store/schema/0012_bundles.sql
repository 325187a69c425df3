-- JB-08: code bundles of projects. The bytes are files under state_dir/bundles; a row says whose they are.
CREATE TABLE bundles (
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  last_used_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('held', 'deleted')),
  PRIMARY KEY (org_id, project_id, sha256)
) STRICT;

CREATE INDEX bundles_unused ON bundles (last_used_ms) WHERE state = 'held';
