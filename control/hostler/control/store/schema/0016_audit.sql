-- DM-08: what each mutation changed. JSON text: `null` before for what was made, after for what is gone.
DROP VIEW audit_logs;
CREATE VIEW audit_logs AS
  SELECT id, at_ms, actor_kind, actor, scope, action, resource_name, result, error_code, correlation_id,
    json_quote(json_extract(body, '$.before')) AS before,
    json_quote(json_extract(body, '$.after')) AS after,
    body
  FROM events WHERE action != '';
