-- What rules in shadow mode would have said of a call: a list of { rule, effect }.

ALTER TABLE evaluations ADD COLUMN shadows TEXT NOT NULL DEFAULT '[]';
CREATE INDEX evaluations_with_shadows ON evaluations (at_ms, shadows) WHERE shadows <> '[]';
