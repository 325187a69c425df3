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
