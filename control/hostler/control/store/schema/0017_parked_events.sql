-- Events that a webhook's receiver did not take, each once, for whoever asks that they be sent again.
CREATE TABLE webhook_parked (
  webhook_id TEXT NOT NULL REFERENCES webhooks (webhook_id),
  event_id INTEGER NOT NULL,
  event_type TEXT NOT NULL,
  parked_at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('parked', 'due', 'taken')),
  PRIMARY KEY (webhook_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_parked_open ON webhook_parked (webhook_id, state, event_id) WHERE state != 'taken';

-- What was parked before there was this table stands in the log.
INSERT OR IGNORE INTO webhook_parked (webhook_id, event_id, event_type, parked_at_ms, reason, state)
SELECT json_extract(body, '$.webhook_id'), json_extract(body, '$.event_id'),
  coalesce(json_extract(body, '$.event_type'), ''), at_ms, coalesce(json_extract(body, '$.reason'), ''), 'parked'
FROM events WHERE type = 'webhook.parked'
  AND json_extract(body, '$.webhook_id') IN (SELECT webhook_id FROM webhooks)
  AND json_type(body, '$.event_id') = 'integer';
