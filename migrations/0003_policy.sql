-- The policy, whole, once per revision. Revisions are only added.

CREATE TABLE policy_revisions (
    id       INTEGER PRIMARY KEY NOT NULL,
    document TEXT NOT NULL,
    digest   TEXT NOT NULL,
    source   TEXT NOT NULL,
    author   TEXT NOT NULL,
    reason   TEXT NOT NULL,
    at_ms    BIGINT NOT NULL
);

CREATE TRIGGER policy_revisions_no_update BEFORE UPDATE ON policy_revisions
BEGIN
    SELECT RAISE(ABORT, 'policy revisions cannot be changed');
END;

CREATE TRIGGER policy_revisions_no_delete BEFORE DELETE ON policy_revisions
BEGIN
    SELECT RAISE(ABORT, 'policy revisions cannot be removed');
END;

-- INSERT OR REPLACE deletes without a delete trigger; this one runs before it.
CREATE TRIGGER policy_revisions_only_add BEFORE INSERT ON policy_revisions
WHEN EXISTS (SELECT 1 FROM policy_revisions WHERE id >= NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'policy revisions are only added');
END;
