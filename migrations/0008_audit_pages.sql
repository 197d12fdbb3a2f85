-- What the pages of the trail are found by, so that none of them reads all calls.

-- What the rules said first: allow, require_approval or deny.
ALTER TABLE calls ADD COLUMN decision TEXT NOT NULL DEFAULT 'deny';
UPDATE calls SET decision = coalesce((SELECT effect FROM evaluations WHERE call = calls.id AND n = 1), 'deny');

CREATE INDEX calls_by_server ON calls (server, requested_seq);
CREATE INDEX calls_by_tool ON calls (tool, requested_seq);
CREATE INDEX calls_by_caller ON calls (caller, requested_seq);
CREATE INDEX calls_by_decision ON calls (decision, requested_seq);

-- Which calls were asked for in which ten minutes. Pages are in the order of the trail and the clock may step back, so
-- this tells between which places of the trail a time is to be looked for.
CREATE TABLE call_times (
    slot      BIGINT PRIMARY KEY NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq  BIGINT NOT NULL
);
INSERT INTO call_times (slot, first_seq, last_seq)
SELECT requested_ms / 600000, min(requested_seq), max(requested_seq) FROM calls GROUP BY requested_ms / 600000;

-- The overview counts by decision, state and reason, and lists results that were flagged.
DROP INDEX calls_by_time;
CREATE INDEX calls_by_time ON calls (requested_ms, decision, state, code, server, tool);
CREATE INDEX calls_flagged ON calls (requested_ms) WHERE flags <> '[]';
