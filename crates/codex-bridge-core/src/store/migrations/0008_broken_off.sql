-- Deliveries: attempts that broke off with the daemon are no refusals, and are counted apart.

ALTER TABLE outbox ADD COLUMN broken_off INTEGER NOT NULL DEFAULT 0;
