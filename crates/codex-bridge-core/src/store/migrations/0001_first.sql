-- What is remembered of tasks. Times are milliseconds UTC, JSON is text.

-- "cbrg": told apart from the databases of other programs.
PRAGMA application_id = 1667396199;

CREATE TABLE tasks (
    -- The order of creation: ids are random.
    ord INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    client_request_id TEXT UNIQUE,
    status TEXT NOT NULL,
    reason TEXT,
    prompt_summary TEXT NOT NULL,
    settings TEXT NOT NULL,
    parked TEXT,
    limits TEXT NOT NULL,
    used TEXT NOT NULL,
    thread_id TEXT,
    turn_id TEXT,
    epoch TEXT,
    host TEXT,
    final_text TEXT,
    error TEXT,
    usage TEXT,
    notify_target TEXT,
    notification TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    completed_at INTEGER
) STRICT;

CREATE INDEX tasks_by_status ON tasks (status, ord);

CREATE TABLE turns (
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    client_id TEXT NOT NULL,
    progress TEXT NOT NULL,
    sealed_prompt BLOB,
    prompt_summary TEXT NOT NULL,
    turn_id TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    PRIMARY KEY (task_id, number)
) STRICT, WITHOUT ROWID;

-- Which events a task has: without this, nothing would tell a pruned log from a damaged one.
CREATE TABLE logs (
    task_id TEXT PRIMARY KEY REFERENCES tasks (id) ON DELETE CASCADE,
    first_seq INTEGER NOT NULL DEFAULT 1,
    last_seq INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- No foreign key: an event is added only with its row in logs, and pruning takes events before their task.
CREATE TABLE events (
    task_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (task_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    ord INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL UNIQUE,
    epoch TEXT NOT NULL,
    -- JSON, since 0 and "0" are two ids.
    wire_id TEXT NOT NULL,
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    method TEXT NOT NULL,
    ask TEXT NOT NULL,
    state TEXT NOT NULL,
    sealed_decision BLOB,
    decision TEXT,
    decided_by TEXT,
    decided_at INTEGER,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    closed_at INTEGER,
    UNIQUE (epoch, wire_id)
) STRICT;

CREATE INDEX requests_by_task ON requests (task_id, ord);
CREATE INDEX requests_by_state ON requests (state, ord);

-- Kept when its task is forgotten.
CREATE TABLE audit (
    ord INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    task_id TEXT,
    detail TEXT NOT NULL
) STRICT;
