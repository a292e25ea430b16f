-- The request that a message is about, and the message of which it is a new version.
ALTER TABLE inbox ADD COLUMN about TEXT;
ALTER TABLE inbox ADD COLUMN edits TEXT;

-- What people chose for a conversation.
ALTER TABLE conversations ADD COLUMN model TEXT;
ALTER TABLE conversations ADD COLUMN effort TEXT;

-- The people whom the operator allowed beside those of the configuration.
ALTER TABLE channels ADD COLUMN allowed TEXT NOT NULL DEFAULT '[]';
