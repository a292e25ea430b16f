-- The files of a message. They are deleted with its text.
CREATE TABLE attachments (
    message_id TEXT NOT NULL REFERENCES inbox (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    -- Sealed: what is known of the file, and what is in it. The latter is large, and last.
    sealed_about BLOB NOT NULL,
    sealed_content BLOB,
    PRIMARY KEY (message_id, number)
) STRICT;

-- Whether a message has files, in a word.
ALTER TABLE inbox ADD COLUMN attached TEXT NOT NULL DEFAULT 'nothing';

-- The message whose images are given to Codex with the prompt.
ALTER TABLE turns ADD COLUMN images_of TEXT;
