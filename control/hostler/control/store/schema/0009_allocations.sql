-- Allocations, their hold on nodes, the links of each node's chain, and the axes by which a node is chosen (OD-15).
-- Columns of nodes stand at the end, in the order of kernel/rows.py.

ALTER TABLE nodes ADD COLUMN pool INTEGER NOT NULL DEFAULT 0 CHECK (pool IN (0, 1));
ALTER TABLE nodes ADD COLUMN allocation_id TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN health TEXT NOT NULL DEFAULT 'ok'
  CHECK (health IN ('ok', 'degraded', 'cleaning', 'quarantined'));
ALTER TABLE nodes ADD COLUMN health_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN quarantined_at_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN quarantined_by TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN scheduling TEXT NOT NULL DEFAULT 'schedulable'
  CHECK (scheduling IN ('schedulable', 'cordoned', 'draining'));
ALTER TABLE nodes ADD COLUMN reclaim TEXT NOT NULL DEFAULT 'clean' CHECK (reclaim IN ('clean', 'leased', 'dirty'));
ALTER TABLE nodes ADD COLUMN reclaimed_at_ms INTEGER NOT NULL DEFAULT 0;

CREATE TABLE allocations (
  allocation_id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  external_id TEXT NOT NULL,
  request_digest TEXT NOT NULL,
  requested_by TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  labels TEXT NOT NULL,
  nodes TEXT NOT NULL,
  node_count INTEGER NOT NULL CHECK (node_count >= 1),
  inputs TEXT NOT NULL,
  provision_ref TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  deadline_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('requested', 'provisioning', 'active', 'releasing', 'released', 'failed')),
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  active_at_ms INTEGER NOT NULL,
  release_requested_ms INTEGER NOT NULL,
  finished_at_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX allocations_external ON allocations (project_id, org_id, external_id) WHERE external_id != '';
CREATE INDEX allocations_listed ON allocations (project_id, allocation_id DESC);
CREATE INDEX allocations_waiting ON allocations (allocation_id) WHERE state = 'requested';

CREATE TABLE allocation_nodes (
  allocation_id TEXT NOT NULL REFERENCES allocations (allocation_id),
  node_id TEXT NOT NULL REFERENCES nodes (node_id),
  state TEXT NOT NULL CHECK (
    state IN ('provisioning', 'active', 'releasing', 'clean', 'quarantined', 'held', 'abandoned')
  ),
  link TEXT NOT NULL,
  revoke_operation_id TEXT NOT NULL,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  finished_at_ms INTEGER NOT NULL,
  PRIMARY KEY (allocation_id, node_id)
) STRICT, WITHOUT ROWID;
-- A node is in one hand at a time, whatever the code does.
CREATE UNIQUE INDEX allocation_nodes_one_holder ON allocation_nodes (node_id)
  WHERE state NOT IN ('clean', 'abandoned');

CREATE TABLE allocation_links (
  allocation_id TEXT NOT NULL REFERENCES allocations (allocation_id),
  node_id TEXT NOT NULL REFERENCES nodes (node_id),
  link TEXT NOT NULL CHECK (link IN ('provision', 'deprovision', 'identity_revoke', 'reclaim_verify')),
  ref TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'succeeded', 'failed')),
  tries INTEGER NOT NULL CHECK (tries >= 0),
  deadline_ms INTEGER NOT NULL,
  started_at_ms INTEGER NOT NULL,
  finished_at_ms INTEGER NOT NULL,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  PRIMARY KEY (allocation_id, node_id, link)
) STRICT, WITHOUT ROWID;
CREATE INDEX allocation_links_due ON allocation_links (deadline_ms) WHERE state IN ('waiting', 'running');

-- DM-22: a sparse overlay for each node; each party lifts its own wish and nobody else's.
CREATE TABLE worker_policies (
  node_id TEXT NOT NULL REFERENCES nodes (node_id),
  owner TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('', 'cordoned', 'draining')),
  reason TEXT NOT NULL,
  actor TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (node_id, owner)
) STRICT, WITHOUT ROWID;

CREATE INDEX nodes_of_the_pool ON nodes (node_id) WHERE pool = 1;
CREATE INDEX nodes_free ON nodes (node_id) WHERE pool = 1 AND allocation_id = ''
  AND connection = 'connected' AND reclaim = 'clean' AND health = 'ok' AND scheduling = 'schedulable';
CREATE INDEX operations_of_allocation ON operations (linked_allocation_id) WHERE linked_allocation_id IS NOT NULL;
CREATE INDEX events_of_allocation ON events (resource_name, id)
  WHERE resource_name >= 'allocations/' AND resource_name < 'allocations0';
