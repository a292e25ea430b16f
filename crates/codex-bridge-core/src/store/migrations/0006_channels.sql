-- Conversations: who reads them is known of each message; where a task's people are asked is known of the task.
-- Deliveries: since when they are being tried, and which are replies, which keep their order.

ALTER TABLE inbox ADD COLUMN room TEXT NOT NULL DEFAULT 'direct';
ALTER TABLE conversations DROP COLUMN has_approver;
ALTER TABLE tasks ADD COLUMN asks_in TEXT;
ALTER TABLE outbox ADD COLUMN taken_up_at INTEGER;
ALTER TABLE outbox ADD COLUMN is_reply INTEGER NOT NULL
    GENERATED ALWAYS AS (json_extract(notice, '$.event') IS 'reply') VIRTUAL;

CREATE INDEX inbox_by_state ON inbox (channel, state, conversation);
CREATE INDEX outbox_replies ON outbox (target, ord) WHERE is_reply AND state IN ('pending', 'attempting');
CREATE INDEX outbox_by_target ON outbox (target, updated_at);
CREATE INDEX outbox_gone ON outbox (target) WHERE target_gone;
