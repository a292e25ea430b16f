-- Tokens have quotas. What each has handed over is counted with its task, and forgotten with it.

ALTER TABLE tokens ADD COLUMN max_open_tasks INTEGER NOT NULL DEFAULT 20;
ALTER TABLE tokens ADD COLUMN max_bytes INTEGER NOT NULL DEFAULT 67108864;

-- The token by which the last turn was handed over, if it was by one.
ALTER TABLE tasks ADD COLUMN token TEXT;
CREATE INDEX tasks_by_token ON tasks (token, status) WHERE token IS NOT NULL;

CREATE TABLE handed_over (
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    token TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (task_id, token)
) STRICT, WITHOUT ROWID;

CREATE INDEX handed_over_by_token ON handed_over (token, bytes);
