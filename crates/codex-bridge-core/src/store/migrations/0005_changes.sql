-- The diffs of a request that are too long for a list: read one at a time, by whoever wants all of them.

-- No key to requests: it is written before its request, and apart, so that a full disk takes the diffs alone.
CREATE TABLE whole_changes (
    request_id TEXT PRIMARY KEY,
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    changes TEXT NOT NULL
) STRICT;

CREATE INDEX whole_changes_by_task ON whole_changes (task_id);
