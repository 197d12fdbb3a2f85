-- Keys of MCP clients. The token itself is never stored; a revoked key keeps its name, so that no later one takes it.

CREATE TABLE keys (
    name         TEXT PRIMARY KEY NOT NULL,
    digest       TEXT NOT NULL UNIQUE,
    owner        TEXT NOT NULL REFERENCES persons (name),
    caller       TEXT NOT NULL UNIQUE,
    scope        TEXT NOT NULL,
    audit_read   BIGINT NOT NULL CHECK (audit_read IN (0, 1)),
    created_ms   BIGINT NOT NULL,
    last_used_ms BIGINT,
    revoked_ms   BIGINT,
    revoked_by   TEXT
);
