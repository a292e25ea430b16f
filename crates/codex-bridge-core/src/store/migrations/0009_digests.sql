-- A decision goes only to the request that was shown: by a digest of what Codex asked. What was asked before there were
-- digests has none, and is asked again.

ALTER TABLE requests ADD COLUMN digest TEXT NOT NULL DEFAULT '';

-- What is asked with nothing hidden, for the person at the machine, as long as it can be answered.
ALTER TABLE requests ADD COLUMN sealed_ask BLOB;
