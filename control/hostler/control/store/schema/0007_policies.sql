-- DM-03: what a scope adds to the policy of an operation type; `*` is every type.
CREATE TABLE operation_policy_overrides (
  scope TEXT NOT NULL CHECK (scope IN ('global', 'tenant', 'project')),
  scope_id TEXT NOT NULL,
  operation_type TEXT NOT NULL,
  overlay TEXT NOT NULL,
  revision INTEGER NOT NULL,
  updated_by TEXT NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  CHECK ((scope = 'global') = (scope_id = '')),
  PRIMARY KEY (scope, scope_id, operation_type)
) STRICT, WITHOUT ROWID;
-- How many tasks of a type are in flight in a scope, for max_concurrency across its operations.
CREATE INDEX operations_in_flight ON operations (operation_type) WHERE tasks_in_flight > 0;
CREATE INDEX operations_waiting ON operations (operation_type, operation_id) WHERE tasks_queued > 0;
