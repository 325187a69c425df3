-- The key that a node's network process never holds, and who asked for which credential. No material, ever.

CREATE TABLE runner_keys (
  node_id TEXT PRIMARY KEY REFERENCES nodes (node_id),
  spki BLOB NOT NULL,
  recorded_at_ms INTEGER NOT NULL
) STRICT;

-- `number` counts the requests of one step of one attempt, from 1.
CREATE TABLE credential_mints (
  attempt_uid TEXT NOT NULL,
  step_id TEXT NOT NULL,
  number INTEGER NOT NULL CHECK (number >= 1),
  task_id TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  node_id TEXT NOT NULL,
  credential_type TEXT NOT NULL,
  intent TEXT NOT NULL,
  request_digest TEXT NOT NULL,
  asked_at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('asked', 'minted', 'failed')),
  minter TEXT NOT NULL,
  error_code TEXT NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  ended_at_ms INTEGER NOT NULL,
  PRIMARY KEY (attempt_uid, step_id, number)
) STRICT, WITHOUT ROWID;
