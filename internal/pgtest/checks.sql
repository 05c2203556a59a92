-- What has to hold for each row of the tables that have no CHECK constraints in
-- production, since those cost too much there (docs/decisions/0001-no-check-constraints-on-hot-tables.md).
-- All tests run with them, so that a function that breaks one fails.
ALTER TABLE guard.idempotency_keys
    ADD CONSTRAINT scope_length CHECK (char_length(scope) BETWEEN 1 AND 255),
    ADD CONSTRAINT key_length CHECK (char_length(key) BETWEEN 1 AND 255),
    ADD CONSTRAINT request_path_length CHECK (char_length(request_path) BETWEEN 1 AND 2048),
    ADD CONSTRAINT request_hash_is_sha256 CHECK (octet_length(request_hash) = 32),
    ADD CONSTRAINT response_status_is_http CHECK (response_status BETWEEN 100 AND 599),
    ADD CONSTRAINT completed_has_response CHECK (
        (completed_at IS NULL) = (response_status IS NULL)
        AND (completed_at IS NULL) = (response_headers IS NULL)
        AND (completed_at IS NULL) = (response_body IS NULL));

ALTER TABLE payments.orders
    ADD CONSTRAINT order_id_length CHECK (char_length(order_id) BETWEEN 1 AND 64),
    ADD CONSTRAINT amount_is_positive CHECK (amount > 0),
    ADD CONSTRAINT currency_is_iso_4217 CHECK (currency ~ '^[A-Z]{3}$'),
    ADD CONSTRAINT status_is_known
        CHECK (status IN ('pending', 'processing', 'paid', 'partially_refunded', 'refunded', 'closed')),
    ADD CONSTRAINT paid_names_its_charge CHECK (
        (status IN ('paid', 'partially_refunded', 'refunded')) = (paid_charge_id IS NOT NULL));

ALTER TABLE payments.charges
    ADD CONSTRAINT charge_id_length CHECK (char_length(charge_id) BETWEEN 1 AND 64),
    ADD CONSTRAINT amount_is_positive CHECK (amount > 0),
    ADD CONSTRAINT attempt_is_positive CHECK (attempt > 0),
    ADD CONSTRAINT status_is_known CHECK (status IN ('processing', 'pending', 'succeeded', 'failed', 'in_doubt')),
    ADD CONSTRAINT next_action_is_an_object CHECK (jsonb_typeof(next_action) = 'object'),
    ADD CONSTRAINT failure_kind_is_known CHECK (failure_kind IN ('refused', 'unsent')),
    ADD CONSTRAINT failed_has_kind CHECK ((status = 'failed') = (failure_kind IS NOT NULL)),
    ADD CONSTRAINT open_is_due CHECK (status IN ('succeeded', 'failed') OR due_at IS NOT NULL);
