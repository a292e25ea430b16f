-- How many messages of a notice that takes several have arrived.
ALTER TABLE outbox ADD COLUMN parts_sent INTEGER NOT NULL DEFAULT 0;

-- What a channel has to know after a restart, beside how far it has read: the messages that it will edit.
ALTER TABLE channels ADD COLUMN memory TEXT;
