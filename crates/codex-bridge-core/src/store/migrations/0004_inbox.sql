-- Messages that came in, the conversations that they belong to, and how far each channel was read.

CREATE TABLE inbox (
    ord INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL,
    external_id TEXT NOT NULL,
    conversation TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    party TEXT NOT NULL,
    hops INTEGER NOT NULL,
    reply_to TEXT NOT NULL,
    position INTEGER,
    summary TEXT NOT NULL,
    -- Sealed, and gone once it was acted on.
    sealed_text BLOB,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    task_id TEXT REFERENCES tasks (id) ON DELETE SET NULL,
    reply_id TEXT,
    error TEXT,
    sent_at INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    acknowledged_at INTEGER,
    updated_at INTEGER NOT NULL,
    UNIQUE (channel, external_id)
) STRICT;

CREATE INDEX inbox_open ON inbox (channel, conversation, ord) WHERE state IN ('received', 'running');
CREATE INDEX inbox_unacknowledged ON inbox (channel, ord) WHERE acknowledged_at IS NULL;
CREATE INDEX inbox_by_task ON inbox (task_id);
CREATE INDEX inbox_by_reply ON inbox (reply_id);
CREATE INDEX inbox_by_sender ON inbox (channel, sender_id, received_at);

CREATE TABLE conversations (
    channel TEXT NOT NULL,
    key TEXT NOT NULL,
    task_id TEXT REFERENCES tasks (id) ON DELETE SET NULL,
    workspace TEXT,
    has_approver INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (channel, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX conversations_by_task ON conversations (task_id);

CREATE TABLE channels (
    name TEXT PRIMARY KEY,
    cursor TEXT,
    is_paused INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
