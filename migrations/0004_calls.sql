-- Calls, what was decided on them, and who was asked.

-- Arguments and results are payloads of the audit rows named here: kept once, committed to by the trail.
CREATE TABLE calls (
    id              TEXT PRIMARY KEY NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'executing', 'denied', 'expired',
                                                   'withdrawn', 'completed', 'failed', 'unknown')),
    server          TEXT NOT NULL,
    tool            TEXT NOT NULL,
    tier            TEXT,
    caller          TEXT NOT NULL,
    role            TEXT NOT NULL,
    owner           TEXT NOT NULL,
    origin          TEXT NOT NULL,
    conversation    TEXT,
    server_identity TEXT,
    definition      TEXT,
    action          TEXT,
    code            TEXT,
    rules           TEXT NOT NULL,
    sentence        TEXT NOT NULL,
    flags           TEXT NOT NULL,
    requested_seq   BIGINT NOT NULL UNIQUE,
    requested_ms    BIGINT NOT NULL,
    decided_ms      BIGINT,
    started_ms      BIGINT,
    ended_ms        BIGINT,
    resolution      TEXT CHECK (resolution IN ('happened', 'did_not_happen')),
    resolved_by     TEXT,
    resolved_ms     BIGINT
);
CREATE INDEX calls_by_conversation ON calls (conversation, requested_seq);
CREATE INDEX calls_by_action ON calls (action, code);
CREATE INDEX calls_by_state ON calls (state, requested_seq);
CREATE INDEX calls_by_time ON calls (requested_ms, state, server, tool);

-- Each evaluation of a call, counting from 1. Context and decision are payloads of the audit row `seq`.
CREATE TABLE evaluations (
    call     TEXT NOT NULL REFERENCES calls (id),
    n        BIGINT NOT NULL,
    seq      BIGINT NOT NULL,
    revision BIGINT,
    effect   TEXT NOT NULL,
    rules    TEXT NOT NULL,
    sentence TEXT NOT NULL,
    at_ms    BIGINT NOT NULL,
    PRIMARY KEY (call, n)
);
CREATE INDEX evaluations_by_time ON evaluations (at_ms, rules, effect);

CREATE TABLE approvals (
    id            TEXT PRIMARY KEY NOT NULL,
    call          TEXT NOT NULL UNIQUE REFERENCES calls (id),
    status        TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'withdrawn',
                                                  'consumed', 'void')),
    version       BIGINT NOT NULL,
    action        TEXT NOT NULL,
    roles         TEXT NOT NULL,
    approvers     BIGINT NOT NULL,
    began_wall_ms BIGINT NOT NULL,
    began_boot_ms BIGINT NOT NULL,
    boot          TEXT NOT NULL,
    limit_ms      BIGINT NOT NULL,
    asked_by      TEXT NOT NULL,
    decided_ms    BIGINT,
    decided_by    TEXT,
    note          TEXT
);
CREATE INDEX approvals_by_status ON approvals (status, began_wall_ms);
CREATE INDEX approvals_by_decision ON approvals (decided_ms);

-- One vote per person and version of what is asked.
CREATE TABLE votes (
    approval TEXT NOT NULL REFERENCES approvals (id),
    version  BIGINT NOT NULL,
    person   TEXT NOT NULL,
    role     TEXT NOT NULL,
    verdict  TEXT NOT NULL CHECK (verdict IN ('approve', 'deny')),
    at_ms    BIGINT NOT NULL,
    PRIMARY KEY (approval, version, person)
);

-- One row per started call and rate rule it counts for.
CREATE TABLE rate_events (
    rule    TEXT NOT NULL,
    subject TEXT NOT NULL,
    at_ms   BIGINT NOT NULL
);
CREATE INDEX rate_events_by_subject ON rate_events (rule, subject, at_ms);
