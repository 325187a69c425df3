-- What a task that has not ended waits for besides its turn, such as `capability_missing: gpu.vendor`.

ALTER TABLE tasks ADD COLUMN waiting_for TEXT NOT NULL DEFAULT '';

DROP VIEW local_tasks;
CREATE VIEW local_tasks AS SELECT * FROM tasks WHERE child_cluster = '';
