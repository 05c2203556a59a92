-- Orders, charges and their journal, on top of the guard.

CREATE SCHEMA payments;
REVOKE ALL ON SCHEMA payments FROM PUBLIC;
GRANT USAGE ON SCHEMA payments TO payonce_app;
COMMENT ON SCHEMA payments IS 'Orders, charges and their journal. Start with \df+ payments.*';

CREATE TABLE payments.api_keys (
    key_hash   bytea       PRIMARY KEY CHECK (octet_length(key_hash) = 32),
    merchant   text        NOT NULL CHECK (char_length(merchant) BETWEEN 1 AND 255 AND merchant <> 'webhook'),
    label      text        NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    revoked_at timestamptz
);
COMMENT ON TABLE payments.api_keys IS 'SHA-256 of each api key; the key itself is shown once, when it is made.';
COMMENT ON COLUMN payments.api_keys.key_hash IS 'SHA-256 of the api key, 32 bytes.';
COMMENT ON COLUMN payments.api_keys.merchant IS 'The merchant that the key speaks for: the scope of its idempotency keys. ''webhook'' is the scope of notifications.';
COMMENT ON COLUMN payments.api_keys.label IS 'What the key is for, in the operator''s words.';
COMMENT ON COLUMN payments.api_keys.created_at IS 'When the key was made.';
COMMENT ON COLUMN payments.api_keys.revoked_at IS 'When the key stopped being accepted; null while it is.';

CREATE TABLE payments.orders (
    order_id       text        PRIMARY KEY CHECK (char_length(order_id) BETWEEN 1 AND 64),
    merchant       text        NOT NULL,
    amount         bigint      NOT NULL CHECK (amount > 0),
    currency       text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    status         text        NOT NULL
        CHECK (status IN ('pending', 'processing', 'paid', 'partially_refunded', 'refunded', 'closed')),
    paid_charge_id text,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    CONSTRAINT paid_names_its_charge CHECK (
        (status IN ('paid', 'partially_refunded', 'refunded')) = (paid_charge_id IS NOT NULL))
);
ALTER TABLE payments.orders SET (fillfactor = 80);
COMMENT ON TABLE payments.orders IS 'One row per order. Its amount and currency never change, its status only moves forward.';
COMMENT ON COLUMN payments.orders.order_id IS 'The merchant''s order number: the out_trade_no, invoiceNo. 1 to 64 characters, unique in one deployment.';
COMMENT ON COLUMN payments.orders.merchant IS 'Whose order it is.';
COMMENT ON COLUMN payments.orders.amount IS 'Amount in minor units of the currency.';
COMMENT ON COLUMN payments.orders.currency IS 'ISO 4217 code.';
COMMENT ON COLUMN payments.orders.status IS 'pending, processing, paid, partially_refunded, refunded or closed.';
COMMENT ON COLUMN payments.orders.paid_charge_id IS 'The charge that paid the order.';
COMMENT ON COLUMN payments.orders.created_at IS 'When the order was stored.';
COMMENT ON COLUMN payments.orders.updated_at IS 'When its status last changed.';

CREATE TABLE payments.charges (
    charge_id       text        PRIMARY KEY CHECK (char_length(charge_id) BETWEEN 1 AND 64),
    order_id        text        NOT NULL REFERENCES payments.orders (order_id),
    merchant        text        NOT NULL,
    idempotency_key text        NOT NULL,
    held_by         text        NOT NULL,
    provider        text        NOT NULL,
    method          text        NOT NULL,
    amount          bigint      NOT NULL CHECK (amount > 0),
    currency        text        NOT NULL,
    attempt         int         NOT NULL CHECK (attempt > 0),
    status          text        NOT NULL
        CHECK (status IN ('processing', 'pending', 'succeeded', 'failed', 'in_doubt')),
    trade_no        text,
    next_action     jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(next_action) = 'object'),
    failure_kind    text        CHECK (failure_kind IN ('refused', 'unsent')),
    failure_code    text,
    failure_message text,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    CONSTRAINT failed_has_kind CHECK ((status = 'failed') = (failure_kind IS NOT NULL))
);
ALTER TABLE payments.charges SET (fillfactor = 70);
CREATE INDEX charges_order_id ON payments.charges (order_id);
COMMENT ON TABLE payments.charges IS 'One row per attempt to charge an order at a provider.';
COMMENT ON COLUMN payments.charges.charge_id IS 'Our number of the charge.';
COMMENT ON COLUMN payments.charges.order_id IS 'The order that is charged.';
COMMENT ON COLUMN payments.charges.merchant IS 'Whose charge it is; with idempotency_key and held_by the scope of the key.';
COMMENT ON COLUMN payments.charges.idempotency_key IS 'The key that started the charge.';
COMMENT ON COLUMN payments.charges.held_by IS 'The key whose holder works on the charge now; another one only after the first left it in doubt.';
COMMENT ON COLUMN payments.charges.provider IS 'alipay, wechat, stripe or 2c2p.';
COMMENT ON COLUMN payments.charges.method IS 'The provider''s way of paying; empty for its default.';
COMMENT ON COLUMN payments.charges.amount IS 'Amount in minor units of the currency.';
COMMENT ON COLUMN payments.charges.currency IS 'ISO 4217 code.';
COMMENT ON COLUMN payments.charges.attempt IS 'Counts from 1; grows only after the provider refused the order''s last attempt for good.';
COMMENT ON COLUMN payments.charges.status IS
    'processing (a holder is at work), pending (the buyer has still to pay), succeeded, failed, or in_doubt.';
COMMENT ON COLUMN payments.charges.trade_no IS 'The provider''s number of the trade.';
COMMENT ON COLUMN payments.charges.next_action IS 'What the client needs to go on, such as code_url or client_secret.';
COMMENT ON COLUMN payments.charges.failure_kind IS
    'refused: the provider refused for good; unsent: the money surely did not move and a new attempt is free.';
COMMENT ON COLUMN payments.charges.failure_code IS 'The provider''s code.';
COMMENT ON COLUMN payments.charges.failure_message IS 'The provider''s explanation.';
COMMENT ON COLUMN payments.charges.created_at IS 'When the attempt began.';
COMMENT ON COLUMN payments.charges.updated_at IS 'When its status last changed.';

CREATE TABLE payments.journal (
    entry_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id  text        NOT NULL,
    charge_id text,
    event     text        NOT NULL,
    detail    jsonb       NOT NULL DEFAULT '{}',
    at        timestamptz NOT NULL
);
CREATE INDEX journal_order_id ON payments.journal (order_id, entry_id);
COMMENT ON TABLE payments.journal IS 'Everything that happened to an order, in the order in which it happened. Append-only.';
COMMENT ON COLUMN payments.journal.entry_id IS 'Grows with time; has gaps where a transaction was rolled back.';
COMMENT ON COLUMN payments.journal.order_id IS 'The order.';
COMMENT ON COLUMN payments.journal.charge_id IS 'The charge, where the event belongs to one.';
COMMENT ON COLUMN payments.journal.event IS 'What happened, such as charge_started or charge_succeeded.';
COMMENT ON COLUMN payments.journal.detail IS 'Facts of the event; never a secret or a card.';
COMMENT ON COLUMN payments.journal.at IS 'When it happened.';

CREATE TYPE payments.charge_view AS (
    charge_id       text,
    order_id        text,
    provider        text,
    method          text,
    amount          bigint,
    currency        text,
    attempt         int,
    status          text,
    trade_no        text,
    next_action     jsonb,
    failure_kind    text,
    failure_code    text,
    failure_message text,
    created_at      timestamptz,
    updated_at      timestamptz
);
COMMENT ON TYPE payments.charge_view IS 'A charge as its merchant may see it.';

CREATE TYPE payments.charge_result AS (
    outcome          text,
    fence            bigint,
    recovered        boolean,
    response_status  int,
    response_headers jsonb,
    response_body    bytea,
    retry_after_ms   int,
    charge           payments.charge_view
);
COMMENT ON TYPE payments.charge_result IS
    'What begin_charge and finish_charge answer: guard.result with more outcomes and the charge.';
