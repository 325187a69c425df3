-- TE-10..TE-17, DM-21: leased names of running tasks. A row without a deadline never expires (TE-15).
CREATE TABLE endpoints (
  task_id TEXT NOT NULL,
  endpoint_id TEXT NOT NULL,
  attempt_uid TEXT NOT NULL,
  node_id TEXT NOT NULL,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  address TEXT NOT NULL,
  metadata TEXT NOT NULL,
  registered_at_ms INTEGER NOT NULL,
  renewed_at_ms INTEGER NOT NULL,
  lease_deadline_ms INTEGER,
  state TEXT NOT NULL CHECK (state IN ('registered', 'removed', 'expired')),
  PRIMARY KEY (task_id, endpoint_id)
) STRICT;

-- What the pruner looks through: live ones only, however many there have been.
CREATE INDEX endpoints_live ON endpoints (lease_deadline_ms) WHERE state = 'registered';
CREATE INDEX endpoints_by_name ON endpoints (project_id, namespace, name) WHERE state = 'registered';
