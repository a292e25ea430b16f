-- The open requests of one task are read with every look at it: without going through all that it ever asked.

DROP INDEX requests_by_state;
CREATE INDEX requests_by_state ON requests (state, task_id, ord);
