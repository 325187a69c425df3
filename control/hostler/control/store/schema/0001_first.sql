-- The first schema. Column order is field order in kernel/rows.py; a test holds them together.

CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE nodes (
  node_id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'revoked')),
  connection TEXT NOT NULL CHECK (connection IN ('never', 'connected', 'lost')),
  session_id TEXT NOT NULL,
  public_key BLOB NOT NULL,
  thumbprint TEXT NOT NULL,
  labels TEXT NOT NULL,
  capabilities TEXT NOT NULL,
  agent_version TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  keyset_version INTEGER NOT NULL,
  catalog_version INTEGER NOT NULL,
  parallel_tasks INTEGER NOT NULL,
  storage TEXT NOT NULL,
  enrolled_at_ms INTEGER NOT NULL,
  last_seen_ms INTEGER NOT NULL,
  revoked_at_ms INTEGER NOT NULL
) STRICT;
-- Exactly one of two racing hosts gets the name.
CREATE UNIQUE INDEX nodes_active_name ON nodes (name) WHERE state = 'active';
CREATE INDEX nodes_name ON nodes (name);
CREATE INDEX nodes_owner ON nodes (org_id, project_id, node_id);

CREATE TABLE node_cursors (
  node_id TEXT PRIMARY KEY,
  sequence INTEGER NOT NULL,
  accepted_sequence INTEGER NOT NULL,
  outbox_seq INTEGER NOT NULL,
  chain_index INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE certificates (
  node_id TEXT NOT NULL REFERENCES nodes (node_id),
  serial TEXT NOT NULL,
  thumbprint TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('issued', 'proved', 'superseded', 'revoked')),
  not_before_ms INTEGER NOT NULL,
  not_after_ms INTEGER NOT NULL,
  issued_at_ms INTEGER NOT NULL,
  changed_at_ms INTEGER NOT NULL,
  pem TEXT NOT NULL,
  PRIMARY KEY (node_id, serial)
) STRICT;

CREATE TABLE enrolment_tokens (
  token_id TEXT PRIMARY KEY,
  token_sha256 TEXT NOT NULL,
  node_name TEXT NOT NULL,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  labels TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  used_at_ms INTEGER NOT NULL,
  used_by_key TEXT NOT NULL,
  node_id TEXT NOT NULL
) STRICT;

CREATE TABLE principals (
  name TEXT PRIMARY KEY,
  token_sha256 TEXT NOT NULL UNIQUE,
  role TEXT NOT NULL CHECK (
    role IN ('platform_admin', 'tenant_admin', 'project_admin', 'project_member', 'project_viewer')
  ),
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'revoked')),
  expires_at_ms INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE catalogs (
  version INTEGER PRIMARY KEY,
  manifest BLOB NOT NULL,
  documents TEXT NOT NULL,
  commands TEXT NOT NULL,
  issued_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  registered_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE catalog_documents (
  digest TEXT PRIMARY KEY,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE operation_definitions (
  operation_type TEXT PRIMARY KEY,
  backend_type TEXT NOT NULL,
  description TEXT NOT NULL,
  latest_version TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'deprecated', 'retired')),
  registered_at_ms INTEGER NOT NULL
) STRICT;

-- `document` is the canonical text whose SHA-256 is `digest`; the parts of DM-02 are read out of it, so that
-- they cannot differ from what was signed. The signature is the catalog's own.
CREATE TABLE operation_definition_versions (
  ref TEXT PRIMARY KEY,
  operation_type TEXT NOT NULL,
  version TEXT NOT NULL,
  backend_type TEXT NOT NULL CHECK (
    backend_type IN ('node_agent', 'k8s_adapter', 'slurm_adapter', 'ray_adapter')
  ),
  digest TEXT NOT NULL,
  document TEXT NOT NULL,
  total_steps INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'deprecated', 'retired')),
  catalog_version INTEGER NOT NULL REFERENCES catalogs (version),
  registered_at_ms INTEGER NOT NULL,
  input_schema TEXT GENERATED ALWAYS AS (json_extract(document, '$.inputs')) VIRTUAL,
  step_plan TEXT GENERATED ALWAYS AS (json_extract(document, '$.steps')) VIRTUAL,
  artifact_constraints TEXT GENERATED ALWAYS AS (json_extract(document, '$.artifacts')) VIRTUAL,
  capabilities TEXT GENERATED ALWAYS AS (json_extract(document, '$.capabilities')) VIRTUAL,
  UNIQUE (operation_type, version)
) STRICT;

CREATE TABLE operations (
  operation_id TEXT PRIMARY KEY,
  operation_type TEXT NOT NULL,
  version TEXT NOT NULL,
  definition_digest TEXT NOT NULL,
  backend_type TEXT NOT NULL,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  requested_by_user_id TEXT NOT NULL,
  target_selector TEXT NOT NULL,
  inputs TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  request_digest TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  traceparent TEXT NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('apply', 'plan')),
  trigger_source TEXT NOT NULL CHECK (
    trigger_source IN (
      'allocation_provision', 'allocation_release', 'admin', 'tenant_request', 'agent_lifecycle', 'federation',
      'system'
    )
  ),
  linked_allocation_id TEXT,
  linked_node_id TEXT,
  child_cluster TEXT NOT NULL DEFAULT '',
  backend_id TEXT NOT NULL DEFAULT '',
  policy TEXT NOT NULL,
  policy_digest TEXT NOT NULL,
  total_steps INTEGER NOT NULL,
  tasks_total INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  deadline_ms INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'succeeded', 'failed', 'canceled')),
  attempt_number INTEGER NOT NULL CHECK (attempt_number >= 1),
  tasks_queued INTEGER NOT NULL CHECK (tasks_queued >= 0),
  tasks_in_flight INTEGER NOT NULL CHECK (tasks_in_flight >= 0),
  tasks_succeeded INTEGER NOT NULL CHECK (tasks_succeeded >= 0),
  tasks_failed INTEGER NOT NULL CHECK (tasks_failed >= 0),
  tasks_canceled INTEGER NOT NULL CHECK (tasks_canceled >= 0),
  cancel_requested_ms INTEGER NOT NULL,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  failed_task_id TEXT NOT NULL,
  failed_step_id TEXT NOT NULL,
  started_at_ms INTEGER NOT NULL,
  finished_at_ms INTEGER NOT NULL,
  CHECK (child_cluster = '' OR backend_id = ''),
  CHECK (tasks_queued + tasks_in_flight + tasks_succeeded + tasks_failed + tasks_canceled = tasks_total)
) STRICT;
CREATE UNIQUE INDEX operations_idempotency ON operations (project_id, org_id, idempotency_key);
CREATE INDEX operations_listed ON operations (project_id, operation_id DESC);

CREATE TABLE tasks (
  task_id TEXT PRIMARY KEY,
  operation_id TEXT NOT NULL REFERENCES operations (operation_id),
  child_cluster TEXT NOT NULL DEFAULT '',
  backend_id TEXT NOT NULL DEFAULT '',
  node_id TEXT NOT NULL,
  replica_index INTEGER NOT NULL,
  approved_plan_digest TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'assigned', 'running', 'succeeded', 'failed', 'canceled')),
  attempt_number INTEGER NOT NULL CHECK (attempt_number >= 1),
  attempt_uid TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  envelope_digest TEXT NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  cancel_sequence INTEGER NOT NULL,
  cancel_requested INTEGER NOT NULL CHECK (cancel_requested IN (0, 1)),
  accepted_at_ms INTEGER NOT NULL,
  plan_digest TEXT NOT NULL,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  error_hint TEXT NOT NULL,
  failed_step_id TEXT NOT NULL,
  started_at_ms INTEGER NOT NULL,
  finished_at_ms INTEGER NOT NULL,
  CHECK (child_cluster = '' OR backend_id = '')
) STRICT, WITHOUT ROWID;
-- DM-15: whatever decides about tasks reads this view, and these two indexes carry it.
CREATE VIEW local_tasks AS SELECT * FROM tasks WHERE child_cluster = '';
CREATE INDEX local_tasks_by_operation ON tasks (operation_id) WHERE child_cluster = '';
CREATE INDEX local_tasks_open_on_node ON tasks (node_id) WHERE child_cluster = '' AND finished_at_ms = 0;

CREATE TABLE task_attempts (
  attempt_uid TEXT PRIMARY KEY,
  task_id TEXT NOT NULL REFERENCES tasks (task_id),
  attempt_number INTEGER NOT NULL,
  node_id TEXT NOT NULL,
  reused BLOB NOT NULL,
  created_at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'succeeded', 'failed', 'canceled', 'lost')),
  exit TEXT NOT NULL,
  started_at_ms INTEGER NOT NULL,
  finished_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE operation_steps (
  task_id TEXT NOT NULL REFERENCES tasks (task_id),
  attempt_number INTEGER NOT NULL CHECK (attempt_number >= 1),
  step_index INTEGER NOT NULL,
  operation_id TEXT NOT NULL,
  attempt_uid TEXT NOT NULL,
  step_id TEXT NOT NULL,
  step_kind TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running', 'succeeded', 'failed', 'canceled', 'reused', 'planned')),
  resolved_profile TEXT NOT NULL,
  hardware_match TEXT NOT NULL,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  error_hint TEXT NOT NULL,
  started_at_ms INTEGER NOT NULL,
  finished_at_ms INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  recovered INTEGER NOT NULL,
  receipt_digest TEXT NOT NULL,
  outputs BLOB NOT NULL,
  plan BLOB NOT NULL,
  PRIMARY KEY (task_id, attempt_number, step_index)
) STRICT, WITHOUT ROWID;

-- Signed bytes of every task and cancel, by the node's own sequence.
CREATE TABLE envelopes (
  node_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  task_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('task', 'cancel')),
  digest TEXT NOT NULL,
  envelope BLOB NOT NULL,
  signed_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  PRIMARY KEY (node_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE receipts (
  node_id TEXT NOT NULL,
  digest TEXT NOT NULL,
  chain_index INTEGER NOT NULL,
  operation_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  attempt_uid TEXT NOT NULL,
  step_id TEXT NOT NULL,
  receipt BLOB NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (node_id, chain_index, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX receipts_of_operation ON receipts (operation_id);

-- Log lines and events are numbered on one scale, so that one cursor follows both.
CREATE TABLE log_lines (
  id INTEGER PRIMARY KEY,
  operation_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  node_id TEXT NOT NULL,
  attempt_uid TEXT NOT NULL,
  step_id TEXT NOT NULL,
  step_index INTEGER NOT NULL,
  stream TEXT NOT NULL,
  text TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  cluster TEXT
) STRICT;
CREATE INDEX log_lines_of_operation ON log_lines (operation_id, id);

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  type TEXT NOT NULL,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  operation_type TEXT NOT NULL,
  task_id TEXT NOT NULL,
  node_id TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  resource_name TEXT NOT NULL,
  error_code TEXT NOT NULL,
  actor_kind TEXT NOT NULL,
  actor TEXT NOT NULL,
  scope TEXT NOT NULL,
  action TEXT NOT NULL,
  result TEXT NOT NULL CHECK (result IN ('', 'accepted', 'refused')),
  body TEXT NOT NULL
) STRICT;
CREATE INDEX events_of_operation ON events (operation_id, id) WHERE operation_id != '';

CREATE INDEX events_audited ON events (id) WHERE action != '';
-- DM-08: the audit is a reader of the event log.
CREATE VIEW audit_logs AS
  SELECT id, at_ms, actor_kind, actor, scope, action, resource_name, result, error_code, correlation_id, body
  FROM events WHERE action != '';
