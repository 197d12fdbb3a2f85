-- Conversations of the built-in chat, and real token usage of every conversation.

CREATE TABLE conversations (
    id         TEXT PRIMARY KEY NOT NULL,
    title      TEXT NOT NULL,
    owner      TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    provider   TEXT NOT NULL,
    model      TEXT NOT NULL,
    system     TEXT NOT NULL
);
CREATE INDEX conversations_by_owner ON conversations (owner, updated_ms, id);

-- `body` is JSON that this store does not read.
CREATE TABLE messages (
    conversation TEXT NOT NULL REFERENCES conversations (id),
    position     BIGINT NOT NULL,
    kind         TEXT NOT NULL,
    body         TEXT NOT NULL,
    at_ms        BIGINT NOT NULL,
    PRIMARY KEY (conversation, position)
);

-- A turn without an end was cut off by a crash.
CREATE TABLE turns (
    id           TEXT PRIMARY KEY NOT NULL,
    conversation TEXT NOT NULL REFERENCES conversations (id),
    started_ms   BIGINT NOT NULL,
    ended_ms     BIGINT,
    ending       TEXT
);
CREATE INDEX turns_by_conversation ON turns (conversation);
CREATE INDEX turns_open ON turns (started_ms) WHERE ended_ms IS NULL;

-- Real usage per conversation, caller and UTC day (days since 1970). `estimated` is the part of input and output
-- that a provider did not report. Conversations of MCP clients count here too, so there is no reference.
CREATE TABLE token_usage (
    conversation TEXT NOT NULL,
    caller       TEXT NOT NULL,
    day          BIGINT NOT NULL,
    input        BIGINT NOT NULL,
    output       BIGINT NOT NULL,
    estimated    BIGINT NOT NULL,
    PRIMARY KEY (conversation, caller, day)
);
CREATE INDEX token_usage_by_caller ON token_usage (caller, day);
