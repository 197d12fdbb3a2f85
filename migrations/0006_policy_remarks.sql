-- What was said of a revision when it was made: whether it loosens, and which failing tests were overridden.

ALTER TABLE policy_revisions ADD COLUMN remarks TEXT NOT NULL DEFAULT '{}';
