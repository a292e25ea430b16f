-- A turn's row says what was asked and what came of it. Before, marks of the prompt and of the caller's own name stood in
-- client_id, behind the task, the number and a random part; the rest was to be found in the log.

ALTER TABLE turns ADD COLUMN prompt_mark TEXT;
-- Of turns from before names were kept: a mark of the name.
ALTER TABLE turns ADD COLUMN name_mark TEXT;
ALTER TABLE turns ADD COLUMN client_request_id TEXT;
-- How the task stood when the turn was lined up, as JSON.
ALTER TABLE turns ADD COLUMN before TEXT;
ALTER TABLE turns ADD COLUMN outcome TEXT;
ALTER TABLE turns ADD COLUMN final_text TEXT;
ALTER TABLE turns ADD COLUMN error TEXT;

UPDATE turns
SET prompt_mark = json_extract('["' || replace(client_id, '/', '","') || '"]', '$[3]'),
    name_mark = json_extract('["' || replace(client_id, '/', '","') || '"]', '$[4]')
WHERE client_id GLOB '*/*/*/*' AND client_id NOT GLOB '*["\]*';

-- Few lines of a log are looked for by their kind.
CREATE INDEX events_of_kind ON events (task_id, kind, seq) WHERE kind IN ('diff', 'steered');

-- The end of a turn and the line that tells of it have the same time.
UPDATE turns
SET (outcome, final_text, error) = (
    SELECT json_extract(body, '$.outcome'), json_extract(body, '$.final_text'), json_extract(body, '$.error')
    FROM events
    WHERE events.task_id = turns.task_id AND events.kind = 'turn_ended' AND events.at = turns.ended_at
)
WHERE ended_at IS NOT NULL;
