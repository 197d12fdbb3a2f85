-- The audit trail: rows chained by hash, only ever added. Payloads stand apart: a row holds salted commitments to
-- them, so that a payload can be erased without breaking the chain.

CREATE TABLE audit (
    seq         INTEGER PRIMARY KEY NOT NULL,
    version     BIGINT NOT NULL,
    at_ms       BIGINT NOT NULL,
    kind        TEXT NOT NULL,
    call        TEXT,
    actor       TEXT NOT NULL,
    facts       TEXT NOT NULL,
    commitments TEXT NOT NULL,
    prev_hash   TEXT NOT NULL UNIQUE,
    hash        TEXT NOT NULL
);
CREATE INDEX audit_by_call ON audit (call, seq);
CREATE INDEX audit_by_kind ON audit (kind, seq);

CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows cannot be changed');
END;

CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows cannot be removed');
END;

-- INSERT OR REPLACE deletes without a delete trigger; this one runs before it.
CREATE TRIGGER audit_only_append BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE seq >= NEW.seq)
    OR EXISTS (SELECT 1 FROM audit WHERE prev_hash = NEW.prev_hash)
BEGIN
    SELECT RAISE(ABORT, 'audit rows are only appended');
END;

CREATE TABLE audit_payloads (
    seq  BIGINT NOT NULL,
    name TEXT NOT NULL,
    salt TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (seq, name)
);

CREATE TRIGGER audit_payloads_no_update BEFORE UPDATE ON audit_payloads
BEGIN
    SELECT RAISE(ABORT, 'audit payloads cannot be changed');
END;

CREATE TRIGGER audit_payloads_no_replace BEFORE INSERT ON audit_payloads
WHEN EXISTS (SELECT 1 FROM audit_payloads WHERE seq = NEW.seq AND name = NEW.name)
BEGIN
    SELECT RAISE(ABORT, 'audit payloads cannot be replaced');
END;

-- Where the trail ends, moved in the transaction that appends: a removed end is noticed.
CREATE TABLE audit_head (
    one  INTEGER PRIMARY KEY NOT NULL CHECK (one = 1),
    seq  BIGINT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO audit_head (one, seq, hash)
VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');

CREATE TRIGGER audit_head_only_forward BEFORE UPDATE ON audit_head
WHEN NEW.seq <= OLD.seq
BEGIN
    SELECT RAISE(ABORT, 'the end of the trail only moves forward');
END;

CREATE TRIGGER audit_head_no_delete BEFORE DELETE ON audit_head
BEGIN
    SELECT RAISE(ABORT, 'the end of the trail cannot be removed');
END;

CREATE TRIGGER audit_head_no_second BEFORE INSERT ON audit_head
BEGIN
    SELECT RAISE(ABORT, 'the trail has one end');
END;
