package payments

import (
	"time"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/money"
)

const (
	guardColumns = `r.outcome, r.fence, r.recovered, r.response_status, r.response_headers, r.response_body, r.retry_after_ms`

	chargeColumnList = `(r.charge).charge_id, (r.charge).order_id, (r.charge).provider,
       (r.charge).method, (r.charge).amount, (r.charge).currency, (r.charge).attempt, (r.charge).status,
       (r.charge).trade_no, (r.charge).next_action, (r.charge).failure_code, (r.charge).failure_message,
       (r.charge).created_at, (r.charge).updated_at`

	chargeResultColumns = guardColumns + `, r.quiet, ` + chargeColumnList

	refundColumnList = `(r.refund).refund_id, (r.refund).order_id, (r.refund).charge_id,
       (r.refund).provider, (r.refund).amount, (r.refund).currency, (r.refund).status, (r.refund).trade_no,
       (r.refund).failure_code, (r.refund).failure_message, (r.refund).created_at, (r.refund).updated_at,
       (r.refund).charge_trade_no, (r.refund).charge_attempt, (r.refund).charge_amount`

	refundResultColumns = guardColumns + `, r.quiet, ` + refundColumnList

	beginChargeSQL = `SELECT ` + chargeResultColumns + `
  FROM payments.begin_charge(p_merchant => $1::text, p_key => $2::text, p_request_path => $3::text,
       p_request_hash => $4::bytea, p_charge_id => $5::text, p_order_id => $6::text, p_provider => $7::text,
       p_method => $8::text, p_amount => $9::bigint, p_currency => $10::text, p_lease => $11::interval,
       p_ttl => $12::interval, p_again => $13::boolean, p_quiet => $14::interval) AS r`

	finishChargeSQL = `SELECT ` + chargeResultColumns + `
  FROM payments.finish_charge(p_merchant => $1::text, p_key => $2::text, p_fence => $3::bigint,
       p_charge_id => $4::text, p_status => $5::text, p_trade_no => nullif($6::text, ''),
       p_next_action => $7::jsonb, p_failure_code => nullif($8::text, ''),
       p_failure_message => nullif($9::text, ''), p_response_status => $10::int,
       p_response_headers => $11::jsonb, p_response_body => $12::bytea) AS r`

	releaseChargeSQL = `SELECT payments.release_charge(p_merchant => $1::text, p_key => $2::text, p_fence => $3::bigint,
       p_charge_id => $4::text, p_failure_code => nullif($5::text, ''), p_failure_message => nullif($6::text, ''))`

	abandonChargeSQL = `SELECT payments.abandon_charge(p_merchant => $1::text, p_key => $2::text, p_fence => $3::bigint,
       p_charge_id => $4::text, p_code => nullif($5::text, ''), p_message => nullif($6::text, ''), p_answered => $7::boolean)`

	beginRefundSQL = `SELECT ` + refundResultColumns + `
  FROM payments.begin_refund(p_merchant => $1::text, p_key => $2::text, p_request_path => $3::text,
       p_request_hash => $4::bytea, p_order_id => $5::text, p_refund_id => nullif($6::text, ''),
       p_new_id => $7::text, p_amount => $8::bigint, p_lease => $9::interval, p_ttl => $10::interval,
       p_again => $11::boolean, p_quiet => $12::interval) AS r`

	finishRefundSQL = `SELECT ` + refundResultColumns + `
  FROM payments.finish_refund(p_merchant => $1::text, p_key => $2::text, p_fence => $3::bigint,
       p_refund_id => $4::text, p_status => $5::text, p_trade_no => nullif($6::text, ''),
       p_failure_code => nullif($7::text, ''), p_failure_message => nullif($8::text, ''),
       p_response_status => $9::int, p_response_headers => $10::jsonb, p_response_body => $11::bytea) AS r`

	releaseRefundSQL = `SELECT payments.release_refund(p_merchant => $1::text, p_key => $2::text, p_fence => $3::bigint,
       p_refund_id => $4::text, p_failure_code => nullif($5::text, ''), p_failure_message => nullif($6::text, ''))`

	abandonRefundSQL = `SELECT payments.abandon_refund(p_merchant => $1::text, p_key => $2::text, p_fence => $3::bigint,
       p_refund_id => $4::text, p_code => nullif($5::text, ''), p_message => nullif($6::text, ''), p_answered => $7::boolean)`

	notificationSQL = `SELECT payments.apply_notification(p_provider => $1::text, p_event_key => $2::text, p_event => $3::text,
       p_order_id => $4::text, p_trade_no => nullif($5::text, ''), p_amount => CASE WHEN $7::text <> '' THEN $6::bigint END,
       p_currency => nullif($7::text, ''), p_refund_id => nullif($8::text, ''), p_refunded => nullif($9::bigint, 0),
       p_refunded_total => nullif($10::bigint, 0), p_code => nullif($11::text, ''), p_ttl => $12::interval)`

	createOrderSQL = `SELECT ` + guardColumns + `
  FROM payments.create_order(p_merchant => $1::text, p_key => $2::text, p_request_path => $3::text,
       p_request_hash => $4::bytea, p_order_id => $5::text, p_amount => $6::bigint, p_currency => $7::text,
       p_items => ARRAY(SELECT ROW(i.sku, i.quantity)::payments.order_item
                          FROM ROWS FROM (pg_catalog.unnest($8::text[]), pg_catalog.unnest($9::bigint[]))
                               AS i (sku, quantity)),
       p_response_status => $10::int, p_response_headers => $11::jsonb, p_response_body => $12::bytea,
       p_ttl => $13::interval) AS r`

	claimDueChargeSQL = `SELECT r.merchant, r.key, r.fence, r.quiet, ` + chargeColumnList + `
  FROM payments.claim_due_charge(p_providers => $1::text[], p_lease => $2::interval, p_ttl => $3::interval,
       p_quiet => $4::interval, p_charge_id => nullif($5::text, '')) AS r`

	claimDueRefundSQL = `SELECT r.merchant, r.key, r.fence, r.quiet, ` + refundColumnList + `
  FROM payments.claim_due_refund(p_providers => $1::text[], p_lease => $2::interval, p_ttl => $3::interval,
       p_quiet => $4::interval, p_refund_id => nullif($5::text, '')) AS r`

	recordChargeSQL = `SELECT payments.record_charge_inquiry(p_merchant => $1::text, p_charge_id => $2::text,
       p_status => $3::text, p_trade_no => nullif($4::text, ''), p_failure_code => nullif($5::text, ''),
       p_failure_message => nullif($6::text, ''))`

	recordRefundSQL = `SELECT payments.record_refund_inquiry(p_merchant => $1::text, p_refund_id => $2::text,
       p_status => $3::text, p_trade_no => nullif($4::text, ''), p_failure_code => nullif($5::text, ''),
       p_failure_message => nullif($6::text, ''))`

	getChargeSQL = `SELECT charge_id, order_id, provider, method, amount, currency, attempt, status, trade_no,
       next_action, failure_code, failure_message, created_at, updated_at
  FROM payments.get_charge(p_merchant => $1::text, p_charge_id => $2::text)`

	getOrderSQL = `SELECT order_id, amount, currency, status, paid_charge_id, created_at, updated_at
  FROM payments.get_order(p_merchant => $1::text, p_order_id => $2::text)`

	authenticateSQL = `SELECT payments.authenticate(p_key_hash => $1::bytea)`

	createAPIKeySQL = `SELECT payments.create_api_key(p_key_hash => $1::bytea, p_merchant => $2::text, p_label => $3::text)`

	listKeysSQL = `SELECT k.key_id, k.merchant, k.label, k.created_at, k.revoked_at
  FROM payments.list_api_keys(p_merchant => nullif($1::text, '')) AS k`

	revokeAPIKeySQL = `SELECT k.outcome, k.merchant, k.label, k.revoked_at FROM payments.revoke_api_key(p_key_id => $1::text) AS k`
)

// Statements lists the statements that the server runs, to be prepared when a
// connection is made.
func Statements() []string {
	return []string{
		beginChargeSQL, finishChargeSQL, releaseChargeSQL, abandonChargeSQL,
		beginRefundSQL, finishRefundSQL, releaseRefundSQL, abandonRefundSQL,
		claimDueChargeSQL, claimDueRefundSQL, recordChargeSQL, recordRefundSQL,
		notificationSQL, createOrderSQL, getChargeSQL, getOrderSQL, authenticateSQL,
	}
}

// chargeColumns are the scan targets of a charge; all are null where a result
// has none.
type chargeColumns struct {
	id, orderID, provider, method *string
	amount                        *int64
	currency                      *string
	attempt                       *int32
	status, tradeNo               *string
	next                          map[string]string
	failureCode, failureMessage   *string
	createdAt, updatedAt          *time.Time
}

func (c *chargeColumns) targets() []any {
	return []any{
		&c.id, &c.orderID, &c.provider, &c.method, &c.amount, &c.currency, &c.attempt, &c.status, &c.tradeNo,
		&c.next, &c.failureCode, &c.failureMessage, &c.createdAt, &c.updatedAt,
	}
}

func (c *chargeColumns) charge() Charge {
	if c.id == nil {
		return Charge{}
	}
	return Charge{
		ID: *c.id, OrderID: *c.orderID, Provider: *c.provider, Method: *c.method,
		Money:   money.Money{Amount: *c.amount, Currency: *c.currency},
		Attempt: int(*c.attempt), Status: Status(*c.status), TradeNo: orEmpty(c.tradeNo), Next: c.next,
		FailureCode: orEmpty(c.failureCode), FailureMessage: orEmpty(c.failureMessage),
		CreatedAt: *c.createdAt, UpdatedAt: *c.updatedAt,
	}
}

// refundColumns are the scan targets of a refund; all are null where a result
// has none.
type refundColumns struct {
	id, orderID, chargeID, provider *string
	amount                          *int64
	currency, status, tradeNo       *string
	failureCode, failureMessage     *string
	createdAt, updatedAt            *time.Time
	chargeTradeNo                   *string
	chargeAttempt                   *int32
	chargeAmount                    *int64
}

func (r *refundColumns) targets() []any {
	return []any{
		&r.id, &r.orderID, &r.chargeID, &r.provider, &r.amount, &r.currency, &r.status, &r.tradeNo,
		&r.failureCode, &r.failureMessage, &r.createdAt, &r.updatedAt, &r.chargeTradeNo, &r.chargeAttempt,
		&r.chargeAmount,
	}
}

func (r *refundColumns) refund() Refund {
	if r.id == nil {
		return Refund{}
	}
	return Refund{
		ID: *r.id, OrderID: *r.orderID, ChargeID: *r.chargeID, Provider: *r.provider,
		Money:  money.Money{Amount: *r.amount, Currency: *r.currency},
		Status: Status(*r.status), TradeNo: orEmpty(r.tradeNo),
		FailureCode: orEmpty(r.failureCode), FailureMessage: orEmpty(r.failureMessage),
		CreatedAt: *r.createdAt, UpdatedAt: *r.updatedAt,
		chargeTradeNo: orEmpty(r.chargeTradeNo), chargeAttempt: int(*r.chargeAttempt),
		captured: money.Money{Amount: *r.chargeAmount, Currency: *r.currency},
	}
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// chargeRow is one row of payments.charge_result.
type chargeRow struct {
	guard  guard.Columns
	quiet  *bool
	charge chargeColumns
}

func (r *chargeRow) targets() []any {
	return append(append(r.guard.Targets(), &r.quiet), r.charge.targets()...)
}

func (r *chargeRow) result() Result {
	result := resultOf(r.guard.Result())
	result.Charge = r.charge.charge()
	return result
}

// refundRow is one row of payments.refund_result.
type refundRow struct {
	guard  guard.Columns
	quiet  *bool
	refund refundColumns
}

func (r *refundRow) targets() []any {
	return append(append(r.guard.Targets(), &r.quiet), r.refund.targets()...)
}

func (r *refundRow) result() Result {
	result := resultOf(r.guard.Result())
	result.Refund = r.refund.refund()
	return result
}

func resultOf(answer guard.Result) Result {
	return Result{Outcome: answer.Outcome, Response: answer.Response, RetryAfter: answer.RetryAfter}
}
