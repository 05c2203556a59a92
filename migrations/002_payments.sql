-- Orders, charges and their journal, on top of the guard.

CREATE SCHEMA payments;
REVOKE ALL ON SCHEMA payments FROM PUBLIC;
GRANT USAGE ON SCHEMA payments TO payonce_app;
-- The server refuses to start on a schema that it was not made for.
GRANT SELECT ON public.payonce_schema_version TO payonce_app;
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

-- No CHECK constraints on orders and charges, as on guard.idempotency_keys.
CREATE TABLE payments.orders (
    order_id       text        PRIMARY KEY,
    merchant       text        NOT NULL,
    amount         bigint      NOT NULL,
    currency       text        NOT NULL,
    status         text        NOT NULL,
    paid_charge_id text,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL
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
    charge_id       text        PRIMARY KEY,
    order_id        text        NOT NULL REFERENCES payments.orders (order_id),
    merchant        text        NOT NULL,
    idempotency_key text        NOT NULL,
    fence           bigint      NOT NULL,
    provider        text        NOT NULL,
    method          text        NOT NULL,
    amount          bigint      NOT NULL,
    currency        text        NOT NULL,
    attempt         int         NOT NULL,
    status          text        NOT NULL,
    trade_no        text,
    next_action     jsonb       NOT NULL DEFAULT '{}',
    failure_kind    text,
    failure_code    text,
    failure_message text,
    due_at          timestamptz,
    unanswered_at   timestamptz,
    inquiries       int         NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL
);
ALTER TABLE payments.charges SET (fillfactor = 70);
CREATE INDEX charges_order_id ON payments.charges (order_id);
CREATE INDEX charges_due ON payments.charges (due_at) WHERE due_at IS NOT NULL;
COMMENT ON TABLE payments.charges IS 'One row per attempt to charge an order at a provider.';
COMMENT ON COLUMN payments.charges.charge_id IS 'Our number of the charge.';
COMMENT ON COLUMN payments.charges.order_id IS 'The order that is charged.';
COMMENT ON COLUMN payments.charges.merchant IS 'Whose charge it is; with idempotency_key the name of its key.';
COMMENT ON COLUMN payments.charges.idempotency_key IS 'The key that started the charge, and the only one that may take it over.';
COMMENT ON COLUMN payments.charges.fence IS 'The fence of its key''s last claim for it; 0 where there was none.';
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
COMMENT ON COLUMN payments.charges.due_at IS
    'When the reconciler looks at it next: after the lease of its holder, and then with growing waits; null when nothing is left to do.';
COMMENT ON COLUMN payments.charges.unanswered_at IS
    'When the provider was last asked to move the money, as long as it has not answered that; until long after, it may move still.';
COMMENT ON COLUMN payments.charges.inquiries IS 'How often the reconciler has looked.';
COMMENT ON COLUMN payments.charges.created_at IS 'When the attempt began.';
COMMENT ON COLUMN payments.charges.updated_at IS 'When its status last changed.';

CREATE TABLE payments.journal (
    entry_id  bigint GENERATED ALWAYS AS IDENTITY,
    order_id  text        NOT NULL,
    charge_id text,
    event     text        NOT NULL,
    detail    jsonb       NOT NULL DEFAULT '{}',
    at        timestamptz NOT NULL,
    PRIMARY KEY (order_id, entry_id)
);
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
COMMENT ON COLUMN payments.charge_view.charge_id IS 'Our number of the charge.';
COMMENT ON COLUMN payments.charge_view.order_id IS 'The order that is charged.';
COMMENT ON COLUMN payments.charge_view.provider IS 'alipay, wechat, stripe or 2c2p.';
COMMENT ON COLUMN payments.charge_view.method IS 'The provider''s way of paying; empty for its default.';
COMMENT ON COLUMN payments.charge_view.amount IS 'Minor units of the currency.';
COMMENT ON COLUMN payments.charge_view.currency IS 'ISO 4217 code.';
COMMENT ON COLUMN payments.charge_view.attempt IS 'Counts from 1, as in payments.charges.';
COMMENT ON COLUMN payments.charge_view.status IS 'processing, pending, succeeded, failed or in_doubt.';
COMMENT ON COLUMN payments.charge_view.trade_no IS 'The provider''s number of the trade.';
COMMENT ON COLUMN payments.charge_view.next_action IS 'What the client needs to go on.';
COMMENT ON COLUMN payments.charge_view.failure_kind IS 'refused or unsent, when failed.';
COMMENT ON COLUMN payments.charge_view.failure_code IS 'The provider''s code.';
COMMENT ON COLUMN payments.charge_view.failure_message IS 'The provider''s explanation.';
COMMENT ON COLUMN payments.charge_view.created_at IS 'When the attempt began.';
COMMENT ON COLUMN payments.charge_view.updated_at IS 'When its status last changed.';

CREATE TYPE payments.due_charge AS (
    merchant text,
    key      text,
    fence    bigint,
    quiet    boolean,
    charge   payments.charge_view
);
COMMENT ON TYPE payments.due_charge IS 'A charge that a reconciler has taken.';
COMMENT ON COLUMN payments.due_charge.merchant IS 'Whose charge it is: the scope of the key.';
COMMENT ON COLUMN payments.due_charge.key IS 'The key that started it.';
COMMENT ON COLUMN payments.due_charge.fence IS 'The fence of the key, which was taken over too; null where the charge has none to complete.';
COMMENT ON COLUMN payments.due_charge.quiet IS
    'True: no earlier request to move this money can still be on its way, so that the provider''s "no such trade" counts.';
COMMENT ON COLUMN payments.due_charge.charge IS 'The charge; null when nothing is due.';

CREATE TYPE payments.charge_result AS (
    outcome          text,
    fence            bigint,
    recovered        boolean,
    response_status  int,
    response_headers jsonb,
    response_body    bytea,
    retry_after_ms   int,
    quiet            boolean,
    charge           payments.charge_view
);
COMMENT ON TYPE payments.charge_result IS
    'What begin_charge and finish_charge answer: guard.result with more outcomes and the charge.';
COMMENT ON COLUMN payments.charge_result.outcome IS 'What happened; the functions'' comments list the outcomes.';
COMMENT ON COLUMN payments.charge_result.fence IS 'As in guard.result.';
COMMENT ON COLUMN payments.charge_result.recovered IS 'As in guard.result; also true when the work itself is in doubt, whatever the key says.';
COMMENT ON COLUMN payments.charge_result.response_status IS 'As in guard.result.';
COMMENT ON COLUMN payments.charge_result.response_headers IS 'As in guard.result.';
COMMENT ON COLUMN payments.charge_result.response_body IS 'As in guard.result.';
COMMENT ON COLUMN payments.charge_result.retry_after_ms IS 'As in guard.result.';
COMMENT ON COLUMN payments.charge_result.quiet IS
    'True: no earlier request to move this money can still be on its way, so that the provider''s "no such trade" counts.';
COMMENT ON COLUMN payments.charge_result.charge IS 'The charge, where there is one.';

CREATE TABLE payments.refunds (
    refund_id       text        PRIMARY KEY CHECK (char_length(refund_id) BETWEEN 1 AND 64),
    order_id        text        NOT NULL REFERENCES payments.orders (order_id),
    charge_id       text        NOT NULL REFERENCES payments.charges (charge_id),
    merchant        text        NOT NULL,
    idempotency_key text        NOT NULL,
    fence           bigint      NOT NULL,
    amount          bigint      NOT NULL CHECK (amount > 0),
    currency        text        NOT NULL,
    status          text        NOT NULL
        CHECK (status IN ('processing', 'pending', 'succeeded', 'failed', 'in_doubt')),
    trade_no        text,
    failure_kind    text        CHECK (failure_kind IN ('refused', 'unsent')),
    failure_code    text,
    failure_message text,
    due_at          timestamptz,
    unanswered_at   timestamptz,
    inquiries       int         NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    CONSTRAINT failed_has_kind CHECK ((status = 'failed') = (failure_kind IS NOT NULL)),
    CONSTRAINT open_is_due CHECK (status IN ('succeeded', 'failed') OR due_at IS NOT NULL)
);
ALTER TABLE payments.refunds SET (fillfactor = 70);
CREATE INDEX refunds_order_id ON payments.refunds (order_id);
CREATE INDEX refunds_due ON payments.refunds (due_at) WHERE due_at IS NOT NULL;
COMMENT ON TABLE payments.refunds IS 'One row per refund. Together they never exceed what the order''s charge captured.';
COMMENT ON COLUMN payments.refunds.refund_id IS 'The refund number: out_request_no, out_refund_no. Equal numbers are one refund.';
COMMENT ON COLUMN payments.refunds.order_id IS 'The order whose money goes back.';
COMMENT ON COLUMN payments.refunds.charge_id IS 'The charge that captured the money.';
COMMENT ON COLUMN payments.refunds.merchant IS 'Whose refund it is; with idempotency_key the name of its key.';
COMMENT ON COLUMN payments.refunds.idempotency_key IS
    'The key that started the refund, and the only one that may take it over; another may start it anew after it was unsent.';
COMMENT ON COLUMN payments.refunds.fence IS 'The fence of its key''s last claim for it; 0 where there was none.';
COMMENT ON COLUMN payments.refunds.amount IS 'Amount in minor units of the currency.';
COMMENT ON COLUMN payments.refunds.currency IS 'ISO 4217 code, the order''s.';
COMMENT ON COLUMN payments.refunds.status IS 'processing, pending (the provider is still at work), succeeded, failed, or in_doubt.';
COMMENT ON COLUMN payments.refunds.trade_no IS 'The provider''s number of the refund.';
COMMENT ON COLUMN payments.refunds.failure_kind IS
    'refused: the provider refused for good; unsent: the money surely did not move and the refund may be tried again.';
COMMENT ON COLUMN payments.refunds.failure_code IS 'The provider''s code.';
COMMENT ON COLUMN payments.refunds.failure_message IS 'The provider''s explanation.';
COMMENT ON COLUMN payments.refunds.due_at IS
    'When the reconciler looks at it next: after the lease of its holder, and then with growing waits; null when nothing is left to do.';
COMMENT ON COLUMN payments.refunds.unanswered_at IS
    'When the provider was last asked to move the money, as long as it has not answered that; until long after, it may move still.';
COMMENT ON COLUMN payments.refunds.inquiries IS 'How often the reconciler has looked.';
COMMENT ON COLUMN payments.refunds.created_at IS 'When the refund began.';
COMMENT ON COLUMN payments.refunds.updated_at IS 'When its status last changed.';

CREATE TYPE payments.refund_view AS (
    refund_id       text,
    order_id        text,
    charge_id       text,
    provider        text,
    amount          bigint,
    currency        text,
    status          text,
    trade_no        text,
    failure_code    text,
    failure_message text,
    created_at      timestamptz,
    updated_at      timestamptz,
    charge_trade_no text,
    charge_attempt  int,
    charge_amount   bigint
);
COMMENT ON TYPE payments.refund_view IS 'A refund as its merchant may see it, with what a provider needs to find its charge.';
COMMENT ON COLUMN payments.refund_view.refund_id IS 'The refund number.';
COMMENT ON COLUMN payments.refund_view.order_id IS 'The order whose money goes back.';
COMMENT ON COLUMN payments.refund_view.charge_id IS 'The charge that captured the money.';
COMMENT ON COLUMN payments.refund_view.provider IS 'The provider of that charge.';
COMMENT ON COLUMN payments.refund_view.amount IS 'Minor units of the currency.';
COMMENT ON COLUMN payments.refund_view.currency IS 'ISO 4217 code.';
COMMENT ON COLUMN payments.refund_view.status IS 'processing, pending, succeeded, failed or in_doubt.';
COMMENT ON COLUMN payments.refund_view.trade_no IS 'The provider''s number of the refund.';
COMMENT ON COLUMN payments.refund_view.failure_code IS 'The provider''s code.';
COMMENT ON COLUMN payments.refund_view.failure_message IS 'The provider''s explanation.';
COMMENT ON COLUMN payments.refund_view.created_at IS 'When the refund began.';
COMMENT ON COLUMN payments.refund_view.updated_at IS 'When its status last changed.';
COMMENT ON COLUMN payments.refund_view.charge_trade_no IS 'The provider''s number of the charge.';
COMMENT ON COLUMN payments.refund_view.charge_attempt IS 'The attempt that captured the money.';
COMMENT ON COLUMN payments.refund_view.charge_amount IS 'What was captured, in minor units.';

CREATE TYPE payments.due_refund AS (
    merchant text,
    key      text,
    fence    bigint,
    quiet    boolean,
    refund   payments.refund_view
);
COMMENT ON TYPE payments.due_refund IS 'A refund that a reconciler has taken.';
COMMENT ON COLUMN payments.due_refund.merchant IS 'Whose refund it is: the scope of the key.';
COMMENT ON COLUMN payments.due_refund.key IS 'The key that started it.';
COMMENT ON COLUMN payments.due_refund.fence IS 'The fence of the key, which was taken over too; null where the refund has none to complete.';
COMMENT ON COLUMN payments.due_refund.quiet IS
    'True: no earlier request to move this money can still be on its way, so that the provider''s "no such trade" counts.';
COMMENT ON COLUMN payments.due_refund.refund IS 'The refund; null when nothing is due.';

CREATE TYPE payments.refund_result AS (
    outcome          text,
    fence            bigint,
    recovered        boolean,
    response_status  int,
    response_headers jsonb,
    response_body    bytea,
    retry_after_ms   int,
    quiet            boolean,
    refund           payments.refund_view
);
COMMENT ON TYPE payments.refund_result IS
    'What begin_refund and finish_refund answer: guard.result with more outcomes and the refund.';
COMMENT ON COLUMN payments.refund_result.outcome IS 'What happened; the functions'' comments list the outcomes.';
COMMENT ON COLUMN payments.refund_result.fence IS 'As in guard.result.';
COMMENT ON COLUMN payments.refund_result.recovered IS 'As in guard.result; also true when the work itself is in doubt, whatever the key says.';
COMMENT ON COLUMN payments.refund_result.response_status IS 'As in guard.result.';
COMMENT ON COLUMN payments.refund_result.response_headers IS 'As in guard.result.';
COMMENT ON COLUMN payments.refund_result.response_body IS 'As in guard.result.';
COMMENT ON COLUMN payments.refund_result.retry_after_ms IS 'As in guard.result.';
COMMENT ON COLUMN payments.refund_result.quiet IS
    'True: no earlier request to move this money can still be on its way, so that the provider''s "no such trade" counts.';
COMMENT ON COLUMN payments.refund_result.refund IS 'The refund, where there is one.';

CREATE TYPE payments.operator_result AS (
    outcome text,
    fence   bigint,
    charge  payments.charge_view,
    refund  payments.refund_view
);
COMMENT ON TYPE payments.operator_result IS 'What operator_take answers: one row.';
COMMENT ON COLUMN payments.operator_result.outcome IS 'taken, held, completed or gone, as guard.operator_take says.';
COMMENT ON COLUMN payments.operator_result.fence IS 'The person''s fence; null unless taken.';
COMMENT ON COLUMN payments.operator_result.charge IS 'The charge that the key started, where it has not been ended.';
COMMENT ON COLUMN payments.operator_result.refund IS 'The refund that the key started, where it has not been ended.';

CREATE TABLE payments.inventory (
    sku        text        PRIMARY KEY CHECK (char_length(sku) BETWEEN 1 AND 128),
    on_hand    bigint      NOT NULL CHECK (on_hand >= 0),
    reserved   bigint      NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    updated_at timestamptz NOT NULL,
    CONSTRAINT never_oversold CHECK (reserved <= on_hand)
);
ALTER TABLE payments.inventory SET (fillfactor = 50);
COMMENT ON TABLE payments.inventory IS 'Stock: what is there, and how much of it is reserved for charges that are running.';
COMMENT ON COLUMN payments.inventory.sku IS 'Stock keeping unit, 1 to 128 characters.';
COMMENT ON COLUMN payments.inventory.on_hand IS 'Pieces that are there, reserved ones included.';
COMMENT ON COLUMN payments.inventory.reserved IS 'Pieces promised to charges that have not ended.';
COMMENT ON COLUMN payments.inventory.updated_at IS 'When one of the numbers last changed.';

CREATE TABLE payments.order_items (
    order_id text   NOT NULL REFERENCES payments.orders (order_id),
    sku      text   NOT NULL,
    quantity bigint NOT NULL CHECK (quantity > 0),
    stock    text   NOT NULL DEFAULT 'free' CHECK (stock IN ('free', 'reserved', 'taken')),
    PRIMARY KEY (order_id, sku)
);
ALTER TABLE payments.order_items SET (fillfactor = 70);
COMMENT ON TABLE payments.order_items IS 'What an order buys, and where its stock stands.';
COMMENT ON COLUMN payments.order_items.order_id IS 'The order.';
COMMENT ON COLUMN payments.order_items.sku IS 'What is bought; stands in payments.inventory.';
COMMENT ON COLUMN payments.order_items.quantity IS 'How many pieces.';
COMMENT ON COLUMN payments.order_items.stock IS
    'free: nothing held; reserved: held by a charge that has not ended; taken: sold.';

CREATE TABLE payments.outbox (
    entry_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id      text        NOT NULL,
    kind          text        NOT NULL,
    reference     text        NOT NULL DEFAULT '',
    payload       jsonb       NOT NULL,
    created_at    timestamptz NOT NULL,
    due_at        timestamptz NOT NULL,
    attempts      int         NOT NULL DEFAULT 0,
    delivered_at  timestamptz,
    CONSTRAINT once_per_effect UNIQUE (order_id, kind, reference)
);
CREATE INDEX outbox_due ON payments.outbox (due_at) WHERE delivered_at IS NULL;
COMMENT ON TABLE payments.outbox IS
    'Effects that a customer sees, such as a confirmation mail: written with the state change, delivered at least once.';
COMMENT ON COLUMN payments.outbox.entry_id IS 'Identifies the effect: a receiver that sees it twice drops the second.';
COMMENT ON COLUMN payments.outbox.order_id IS 'The order.';
COMMENT ON COLUMN payments.outbox.kind IS 'order_confirmation or refund_notice.';
COMMENT ON COLUMN payments.outbox.reference IS 'The refund, where there is one effect per refund; empty otherwise.';
COMMENT ON COLUMN payments.outbox.payload IS 'What the receiver is told.';
COMMENT ON COLUMN payments.outbox.created_at IS 'When the state changed.';
COMMENT ON COLUMN payments.outbox.due_at IS 'When the effect may next be claimed for delivery.';
COMMENT ON COLUMN payments.outbox.attempts IS 'How often delivery was begun.';
COMMENT ON COLUMN payments.outbox.delivered_at IS 'When the receiver took it.';

CREATE TABLE payments.cases (
    case_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind        text        NOT NULL CHECK (kind IN (
        'second_payment', 'amount_mismatch', 'unknown_order', 'unknown_charge', 'oversold', 'paid_after_close')),
    order_id    text        NOT NULL,
    charge_id   text,
    event_key   text        NOT NULL DEFAULT '',
    detail      jsonb       NOT NULL,
    opened_at   timestamptz NOT NULL,
    resolved_at timestamptz,
    CONSTRAINT once_per_event UNIQUE (kind, order_id, event_key)
);
COMMENT ON TABLE payments.cases IS 'What a person has to look at: money that moved in a way that no rule settles.';
COMMENT ON COLUMN payments.cases.case_id IS 'Number of the case.';
COMMENT ON COLUMN payments.cases.kind IS
    'second_payment: another channel paid the order too, refund it; amount_mismatch: a notification over another amount, '
    'not applied; unknown_order, unknown_charge: a payment for something we do not have; oversold: paid, but the stock '
    'was given back before; paid_after_close: paid after the provider had closed it.';
COMMENT ON COLUMN payments.cases.order_id IS 'The order number that the event names.';
COMMENT ON COLUMN payments.cases.charge_id IS 'The charge, where it is known.';
COMMENT ON COLUMN payments.cases.event_key IS 'The notification behind it, where one is.';
COMMENT ON COLUMN payments.cases.detail IS 'Facts of the case; never a secret or a card.';
COMMENT ON COLUMN payments.cases.opened_at IS 'When it was found.';
COMMENT ON COLUMN payments.cases.resolved_at IS 'When a person settled it.';

CREATE TYPE payments.order_item AS (
    sku      text,
    quantity bigint
);
COMMENT ON TYPE payments.order_item IS 'One line of an order.';
COMMENT ON COLUMN payments.order_item.sku IS 'What is bought.';
COMMENT ON COLUMN payments.order_item.quantity IS 'How many pieces, above 0.';
