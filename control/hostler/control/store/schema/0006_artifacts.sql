-- What operations took in and gave out, by digest; small outputs with their content (DM-06, PF-07).

CREATE TABLE operation_artifacts (
  artifact_id TEXT PRIMARY KEY,
  operation_id TEXT NOT NULL REFERENCES operations (operation_id),
  task_id TEXT NOT NULL REFERENCES tasks (task_id),
  node_id TEXT NOT NULL,
  attempt_number INTEGER NOT NULL,
  step_id TEXT NOT NULL,
  step_index INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('input', 'output')),
  sha256 TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  media_type TEXT NOT NULL,
  uri TEXT NOT NULL,
  content BLOB NOT NULL CHECK (length(content) <= 262144),
  at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX operation_artifacts_of ON operation_artifacts (operation_id, artifact_id);
