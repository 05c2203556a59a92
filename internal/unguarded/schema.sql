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
CREATE TABLE IF NOT EXISTS unguarded.carts (
    reference text   NOT NULL,
    sku       text   NOT NULL,
    quantity  bigint NOT NULL CHECK (quantity > 0),
    PRIMARY KEY (reference, sku)
);
CREATE TABLE IF NOT EXISTS unguarded.inventory (
    sku     text   PRIMARY KEY,
    on_hand bigint NOT NULL
);
GRANT USAGE ON SCHEMA unguarded TO payonce_app;
GRANT SELECT, INSERT, UPDATE ON unguarded.orders, unguarded.carts, unguarded.inventory TO payonce_app;
