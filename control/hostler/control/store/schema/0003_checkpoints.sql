-- Checkpoints over the heads of all receipt chains, and the witnesses' answers to them.

CREATE TABLE checkpoints (
  checkpoint_index INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  nodes INTEGER NOT NULL,
  receipts INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  envelope BLOB NOT NULL
) STRICT;

-- A head for each checkpoint that moved it; as of a checkpoint, a node's head is its longest up to there.
CREATE TABLE checkpoint_heads (
  node_id TEXT NOT NULL,
  length INTEGER NOT NULL,
  digest TEXT NOT NULL,
  checkpoint_index INTEGER NOT NULL,
  PRIMARY KEY (node_id, length)
) STRICT, WITHOUT ROWID;
CREATE INDEX checkpoint_heads_moved ON checkpoint_heads (checkpoint_index, node_id);

CREATE TABLE countersignatures (
  checkpoint_index INTEGER NOT NULL REFERENCES checkpoints (checkpoint_index),
  keyid TEXT NOT NULL,
  document BLOB NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (checkpoint_index, keyid)
) STRICT, WITHOUT ROWID;

-- An auditor reads every receipt and hands in countersignatures, and may do nothing else.
CREATE TABLE principals_with_auditor (
  name TEXT PRIMARY KEY,
  token_sha256 TEXT NOT NULL UNIQUE,
  role TEXT NOT NULL CHECK (
    role IN ('platform_admin', 'tenant_admin', 'project_admin', 'project_member', 'project_viewer', 'auditor')
  ),
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'revoked')),
  expires_at_ms INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;
INSERT INTO principals_with_auditor SELECT * FROM principals;
DROP TABLE principals;
ALTER TABLE principals_with_auditor RENAME TO principals;
