-- People who sign in, their one-time links, and their browser sessions.
-- Ids are TEXT, times BIGINT milliseconds since 1970.

CREATE TABLE persons (
    name       TEXT PRIMARY KEY NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('viewer', 'approver', 'admin')),
    created_ms BIGINT NOT NULL
);

-- The token itself is never stored.
CREATE TABLE sign_in_links (
    token_digest TEXT PRIMARY KEY NOT NULL,
    person       TEXT NOT NULL REFERENCES persons (name),
    created_ms   BIGINT NOT NULL,
    expires_ms   BIGINT NOT NULL,
    used_ms      BIGINT
);

-- The session id itself is never stored, so that reading the database does not give a session.
CREATE TABLE sessions (
    id_digest  TEXT PRIMARY KEY NOT NULL,
    data       BLOB NOT NULL,
    expires_ms BIGINT NOT NULL
);
CREATE INDEX sessions_by_expiry ON sessions (expires_ms);
