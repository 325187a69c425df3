-- What may change about a published version: words about it, never what it does (API-02).
ALTER TABLE operation_definition_versions ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE operation_definition_versions ADD COLUMN default_channel TEXT NOT NULL DEFAULT ''
  CHECK (default_channel IN ('', 'stable', 'candidate', 'pinned'));
ALTER TABLE operation_definition_versions ADD COLUMN deprecation_note TEXT NOT NULL DEFAULT '';
