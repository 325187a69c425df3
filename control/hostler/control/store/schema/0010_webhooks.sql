-- EV-01..05: who is told of events by HTTPS, and how far each has been told. No secret: it is derived from a key file.
CREATE TABLE webhooks (
  webhook_id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  url TEXT NOT NULL,
  types TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'disabled', 'deleted'))
) STRICT;

-- `position`: id of the last event that was taken, passed over or parked.
CREATE TABLE webhook_cursors (
  webhook_id TEXT PRIMARY KEY REFERENCES webhooks (webhook_id),
  position INTEGER NOT NULL,
  delivered INTEGER NOT NULL,
  parked INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  failing_since_ms INTEGER NOT NULL,
  next_attempt_ms INTEGER NOT NULL,
  last_delivery_ms INTEGER NOT NULL,
  last_error TEXT NOT NULL
) STRICT;
