-- Releases of the agent, what each node should run, the runs that bring it there, and rollouts (DM-07, LC).
CREATE TABLE agent_releases (
  version TEXT NOT NULL,
  suite TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  file TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  channels TEXT NOT NULL,
  replaces TEXT NOT NULL,
  notes TEXT NOT NULL,
  published_at_ms INTEGER NOT NULL,
  published_by TEXT NOT NULL,
  PRIMARY KEY (version, suite)
) STRICT;

CREATE TABLE agent_channels (
  channel TEXT PRIMARY KEY CHECK (channel IN ('stable', 'candidate')),
  version TEXT NOT NULL,
  changed_at_ms INTEGER NOT NULL,
  changed_by TEXT NOT NULL
) STRICT;

CREATE TABLE node_agents (
  node_id TEXT PRIMARY KEY REFERENCES nodes (node_id),
  channel TEXT NOT NULL CHECK (channel IN ('stable', 'candidate', 'pinned')),
  pinned_version TEXT NOT NULL,
  desired_version TEXT NOT NULL,
  delivery_mode TEXT NOT NULL CHECK (delivery_mode IN ('', 'reimage', 'manual_install', 'rebootstrap')),
  commit_id TEXT NOT NULL,
  suite TEXT NOT NULL,
  drift_state TEXT NOT NULL CHECK (
    drift_state IN ('in_sync', 'version_drift', 'config_drift', 'certificate_only_repair_needed', 'unknown')
  ),
  report BLOB NOT NULL,
  reported_at_ms INTEGER NOT NULL,
  next_report_ms INTEGER NOT NULL,
  trial_version TEXT NOT NULL,
  trial_task_id TEXT NOT NULL,
  returned_at_ms INTEGER NOT NULL,
  last_delivery_attempt_ms INTEGER NOT NULL,
  last_delivery_result TEXT NOT NULL,
  last_delivery_correlation_id TEXT NOT NULL,
  run_id TEXT NOT NULL
) STRICT;
INSERT INTO node_agents
  SELECT node_id, 'stable', '', '', '', '', '', 'unknown', x'', 0, 0, '', '', 0, 0, '', '', '' FROM nodes;

CREATE INDEX node_agents_of_channel ON node_agents (channel);

CREATE TABLE agent_lifecycle_runs (
  run_id TEXT PRIMARY KEY,
  node_id TEXT NOT NULL REFERENCES nodes (node_id),
  mode TEXT NOT NULL CHECK (mode IN ('reimage', 'manual_install', 'rebootstrap')),
  scenario TEXT NOT NULL CHECK (
    scenario IN ('bootstrap_install', 'in_place_upgrade', 'repair_reinstall', 'certificate_repair', 'drift_reconcile')
  ),
  target_version TEXT NOT NULL,
  from_version TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('automated', 'provider', 'manual', 'brokered')),
  safety_policy TEXT NOT NULL CHECK (safety_policy IN ('idle', 'drain', 'force')),
  rollout_id TEXT NOT NULL,
  requested_by TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (
    state IN (
      'waiting', 'delivering', 'trial', 'awaiting_operator', 'verifying', 'succeeded', 'failed', 'rolled_back',
      'canceled'
    )
  ),
  waiting_for TEXT NOT NULL,
  next_action TEXT NOT NULL,
  stage_operation_id TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  verify_operation_id TEXT NOT NULL,
  checks TEXT NOT NULL,
  baseline_serial TEXT NOT NULL,
  progress TEXT NOT NULL,
  cordoned INTEGER NOT NULL,
  deadline_ms INTEGER NOT NULL,
  started_at_ms INTEGER NOT NULL,
  finished_at_ms INTEGER NOT NULL,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL
) STRICT;
CREATE INDEX agent_runs_of_node ON agent_lifecycle_runs (node_id, created_at_ms);
-- One at a time on each node.
CREATE UNIQUE INDEX agent_runs_open ON agent_lifecycle_runs (node_id) WHERE finished_at_ms = 0;
CREATE INDEX agent_runs_due ON agent_lifecycle_runs (deadline_ms) WHERE finished_at_ms = 0;

CREATE TABLE agent_rollouts (
  rollout_id TEXT PRIMARY KEY,
  target_version TEXT NOT NULL,
  settings TEXT NOT NULL,
  waves INTEGER NOT NULL,
  requested_by TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (
    state IN (
      'awaiting_approval', 'running', 'paused', 'rolling_back', 'succeeded', 'failed', 'aborted', 'rolled_back'
    )
  ),
  wave INTEGER NOT NULL,
  wave_started_ms INTEGER NOT NULL,
  soaking_until_ms INTEGER NOT NULL,
  approved_wave INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  turning_back INTEGER NOT NULL,
  reason TEXT NOT NULL,
  error_code TEXT NOT NULL,
  failed_node_id TEXT NOT NULL,
  finished_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX agent_rollouts_open ON agent_rollouts (created_at_ms) WHERE finished_at_ms = 0;

CREATE TABLE agent_rollout_nodes (
  rollout_id TEXT NOT NULL REFERENCES agent_rollouts (rollout_id),
  node_id TEXT NOT NULL REFERENCES nodes (node_id),
  wave INTEGER NOT NULL,
  boundary TEXT NOT NULL,
  state TEXT NOT NULL CHECK (
    state IN ('pending', 'running', 'soaking', 'rolling_back', 'succeeded', 'failed', 'rolled_back', 'skipped')
  ),
  waiting_for TEXT NOT NULL,
  not_before_ms INTEGER NOT NULL,
  from_version TEXT NOT NULL,
  run_id TEXT NOT NULL,
  rollback_run_id TEXT NOT NULL,
  tries INTEGER NOT NULL,
  started_at_ms INTEGER NOT NULL,
  took_at_ms INTEGER NOT NULL,
  failed_check TEXT NOT NULL,
  forgiven INTEGER NOT NULL,
  error_code TEXT NOT NULL,
  reason TEXT NOT NULL,
  finished_at_ms INTEGER NOT NULL,
  PRIMARY KEY (rollout_id, node_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_rollout_nodes_in_waves ON agent_rollout_nodes (rollout_id, wave);
CREATE INDEX agent_rollout_nodes_of_node ON agent_rollout_nodes (node_id);
