-- Held calls whose callers do not wait: since when, and when the result was given to them.

ALTER TABLE approvals ADD COLUMN detached_ms BIGINT;
ALTER TABLE approvals ADD COLUMN collected_ms BIGINT;
