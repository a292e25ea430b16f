-- What is to be sent to the targets of tasks, and what became of it.

CREATE TABLE outbox (
    ord INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    -- None of a reply to somebody who has no task.
    task_id TEXT REFERENCES tasks (id) ON DELETE CASCADE,
    target TEXT NOT NULL,
    notice TEXT NOT NULL,
    -- What is alike joins the row that has the same one. Gone with the first attempt.
    join_key TEXT UNIQUE,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    in_doubt INTEGER NOT NULL,
    target_gone INTEGER NOT NULL,
    -- Pending: when to try. Attempting: until when the attempt holds it.
    next_at INTEGER NOT NULL,
    last_error TEXT,
    message_id TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX outbox_by_task ON outbox (task_id, ord);
CREATE INDEX outbox_unfinished ON outbox (target, next_at, ord) WHERE state IN ('pending', 'attempting');
