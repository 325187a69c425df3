-- JB-01..07: jobs beside their operations, where each task is, and what it holds of a node.
CREATE TABLE jobs (
  job_id TEXT PRIMARY KEY REFERENCES operations (operation_id),
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  name TEXT NOT NULL,
  root TEXT NOT NULL,
  parent_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  spec TEXT NOT NULL,
  priority INTEGER NOT NULL,
  preemptible INTEGER NOT NULL CHECK (preemptible IN (0, 1)),
  replicas INTEGER NOT NULL,
  gang INTEGER NOT NULL CHECK (gang IN (0, 1)),
  allocation_id TEXT NOT NULL,
  reroute_after_ms INTEGER NOT NULL,
  budget_ms INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  current INTEGER NOT NULL CHECK (current IN (0, 1)),
  pending INTEGER NOT NULL CHECK (pending >= 0),
  failures INTEGER NOT NULL,
  preemptions INTEGER NOT NULL,
  task_ms INTEGER NOT NULL,
  gone_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- Exactly one of two submits at once gets the name.
CREATE UNIQUE INDEX jobs_name ON jobs (project_id, org_id, name) WHERE current = 1;
CREATE INDEX jobs_listed ON jobs (project_id, job_id DESC);
CREATE INDEX jobs_children ON jobs (parent_id) WHERE parent_id != '';
CREATE INDEX jobs_pending ON jobs (project_id, org_id, allocation_id) WHERE pending > 0;
CREATE INDEX jobs_budgeted ON jobs (job_id) WHERE budget_ms > 0 AND gone_ms = 0;

CREATE TABLE job_tasks (
  task_id TEXT PRIMARY KEY REFERENCES tasks (task_id),
  job_id TEXT NOT NULL REFERENCES jobs (job_id),
  task_index INTEGER NOT NULL,
  node_id TEXT NOT NULL,
  pending INTEGER NOT NULL CHECK (pending IN (0, 1)),
  leaving TEXT NOT NULL,
  failures INTEGER NOT NULL,
  preemptions INTEGER NOT NULL,
  avoid TEXT NOT NULL,
  not_before_ms INTEGER NOT NULL,
  deadline_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX job_tasks_of_job ON job_tasks (job_id, task_index);
CREATE INDEX job_tasks_placed ON job_tasks (node_id) WHERE node_id != '';
CREATE INDEX job_tasks_timed ON job_tasks (job_id) WHERE pending = 1 AND (not_before_ms > 0 OR deadline_ms > 0);

CREATE INDEX job_tasks_leaving ON job_tasks (job_id) WHERE leaving != '';

CREATE TABLE job_attempts (
  task_id TEXT NOT NULL REFERENCES tasks (task_id),
  attempt_number INTEGER NOT NULL,
  attempt_uid TEXT NOT NULL,
  PRIMARY KEY (task_id, attempt_number)
) STRICT, WITHOUT ROWID;

CREATE TABLE node_loads (
  node_id TEXT PRIMARY KEY REFERENCES nodes (node_id),
  tasks INTEGER NOT NULL CHECK (tasks >= 0),
  cpu_millis INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  disk_bytes INTEGER NOT NULL,
  gpus INTEGER NOT NULL,
  tpus INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE job_shares (
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  tasks INTEGER NOT NULL CHECK (tasks >= 0),
  cpu_millis INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  disk_bytes INTEGER NOT NULL,
  gpus INTEGER NOT NULL,
  tpus INTEGER NOT NULL,
  PRIMARY KEY (org_id, project_id, owner)
) STRICT, WITHOUT ROWID;

-- EF-06: attempts that were replaced while their node was away.
CREATE TABLE stray_attempts (
  attempt_uid TEXT PRIMARY KEY REFERENCES task_attempts (attempt_uid),
  task_id TEXT NOT NULL,
  node_id TEXT NOT NULL,
  since_ms INTEGER NOT NULL,
  cancel_sequence INTEGER NOT NULL,
  ended_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX stray_attempts_on_node ON stray_attempts (node_id) WHERE ended_at_ms = 0;
CREATE INDEX stray_attempts_of_task ON stray_attempts (task_id) WHERE ended_at_ms = 0;
