CREATE SCHEMA IF NOT EXISTS unguarded;
CREATE TABLE IF NOT EXISTS unguarded.orders (
    order_id   text        PRIMARY KEY,
    reference  text        NOT NULL,
    provider   text        NOT NULL,
    amount     bigint      NOT NULL CHECK (amount > 0),
    currency   text        NOT NULL,
    status     text        NOT NULL,
    trade_no   text        NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 80);
GRANT USAGE ON SCHEMA unguarded TO payonce_app;
GRANT SELECT, INSERT, UPDATE ON unguarded.orders TO payonce_app;
