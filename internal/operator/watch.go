package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Counts tell how the keys and the work stand. Times are by the database's
// clock; Now is that clock.
type Counts struct {
	Now                                        time.Time
	Total, Held, InDoubt, Completed, Expired   int64
	OldestExpired, OldestLeasePastDue          *time.Time
	DueCharges, DueRefunds, Undelivered, Cases int64
	OldestEffect, OldestCase                   *time.Time
}

const keyCountsSQL = `
SELECT pg_catalog.clock_timestamp(), s.total, s.held, s.in_doubt, s.completed, s.expired, s.oldest_expired_at, s.oldest_lease_past_due
  FROM guard.stats() AS s`

const workCountsSQL = `
SELECT b.due_charges, b.due_refunds, b.undelivered, b.open_cases, b.oldest_effect, b.oldest_case FROM payments.backlog() AS b`

// Count counts keys and open work. It reads the whole table of keys.
func (d *Desk) Count(ctx context.Context) (Counts, error) {
	var c Counts
	err := d.pool.QueryRow(ctx, keyCountsSQL).Scan(&c.Now, &c.Total, &c.Held, &c.InDoubt, &c.Completed, &c.Expired,
		&c.OldestExpired, &c.OldestLeasePastDue)
	if err != nil {
		return c, explained("count the keys", err)
	}
	if !d.payments {
		return c, nil
	}
	err = d.pool.QueryRow(ctx, workCountsSQL).Scan(&c.DueCharges, &c.DueRefunds, &c.Undelivered, &c.Cases,
		&c.OldestEffect, &c.OldestCase)
	return c, explained("count the open work", err)
}

// Doubt is a charge or a refund that was begun, has no end, and has nobody at
// work on it.
type Doubt struct {
	// Kind is charge or refund.
	Kind, ID, OrderID, Scope, Key, Provider string
	Amount                                  int64
	Currency, Status                        string
	Code                                    *string
	Since                                   time.Time
	// DueAt is when the reconciler asks next.
	DueAt     time.Time
	Inquiries int
}

// InDoubt lists the charges and refunds in doubt, the oldest first.
func (d *Desk) InDoubt(ctx context.Context, limit int) ([]Doubt, error) {
	if !d.payments {
		return nil, nil
	}
	rows, err := d.pool.Query(ctx, `
		SELECT kind, id, order_id, scope, key, provider, amount, currency, status, failure_code, since, due_at, inquiries
		  FROM payments.operator_in_doubt(p_limit => $1::int)`, limit)
	if err != nil {
		return nil, explained("list what is in doubt", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Doubt])
	return found, explained("list what is in doubt", err)
}

// Case is money that moved in a way that no rule settles.
type Case struct {
	ID            int64
	Kind, OrderID string
	// Known tells that the order is one of ours.
	Known    bool
	Detail   map[string]any
	OpenedAt time.Time
}

// Cases lists the open cases, the oldest first.
func (d *Desk) Cases(ctx context.Context, limit int) ([]Case, error) {
	if !d.payments {
		return nil, nil
	}
	rows, err := d.pool.Query(ctx, `
		SELECT case_id, kind, order_id, known, detail, opened_at FROM payments.operator_cases(p_limit => $1::int)`, limit)
	if err != nil {
		return nil, explained("list the open cases", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Case])
	return found, explained("list the open cases", err)
}

// Found is something that carries a number which was searched for.
type Found struct {
	// Kind is order, charge, refund or case.
	Kind, ID, OrderID             string
	Scope, Key, Provider, TradeNo *string
	Status                        string
	Amount                        *int64
	Currency                      *string
	At                            time.Time
}

// Find looks for what carries the text as a number of ours or of a provider,
// and for keys that begin with it. It reads all keys, charges and refunds.
func (d *Desk) Find(ctx context.Context, text string, limit int) ([]Found, []Key, error) {
	keys, err := d.Keys(ctx, Filter{Prefix: text, Limit: limit})
	if err != nil || !d.payments {
		return nil, keys, err
	}
	rows, err := d.pool.Query(ctx, `
		SELECT kind, id, order_id, scope, key, provider, trade_no, status, amount, currency, at
		  FROM payments.operator_find(p_text => $1::text, p_limit => $2::int)`, text, limit)
	if err != nil {
		return nil, nil, explained("search", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Found])
	return found, keys, explained("search", err)
}

// PurgeJob tells how pg_cron's purge fares; guard.purge_job says what each
// field means.
type PurgeJob struct {
	Extension               string
	Database, Schedule      *string
	Active                  *bool
	LastStatus, LastMessage *string
	LastRunAt               *time.Time
	LogRows                 *int64
}

// Runs tells that pg_cron purges, so that no server does.
func (j PurgeJob) Runs() bool { return j.Active != nil && *j.Active }

// PurgeJob looks at pg_cron's job.
func (d *Desk) PurgeJob(ctx context.Context) (PurgeJob, error) {
	var job PurgeJob
	err := d.pool.QueryRow(ctx, `
		SELECT extension, database, schedule, active, last_status, last_message, last_run_at, log_rows FROM guard.purge_job()`).
		Scan(&job.Extension, &job.Database, &job.Schedule, &job.Active, &job.LastStatus, &job.LastMessage, &job.LastRunAt, &job.LogRows)
	return job, explained("look at pg_cron", err)
}

// Asked tells whether a provider can be asked about a charge or refund now.
type Asked string

// What MakeDue finds.
const (
	// AskDue: the inquiry is due.
	AskDue Asked = "due"
	// AskHeld: somebody is at work on it.
	AskHeld Asked = "held"
	// AskEnded: nothing is left to ask.
	AskEnded Asked = "ended"
	// AskGone: there is no such charge or refund.
	AskGone Asked = "gone"
)

// MakeDue makes the inquiry about a charge or a refund (the other id is empty)
// due now; who wanted it is journalled.
func (d *Desk) MakeDue(ctx context.Context, chargeID, refundID, actor string) (Asked, error) {
	var asked string
	err := d.pool.QueryRow(ctx, `
		SELECT payments.operator_ask(p_charge_id => nullif($1::text, ''), p_refund_id => nullif($2::text, ''), p_actor => $3::text)`,
		chargeID, refundID, actor).Scan(&asked)
	if err != nil {
		return "", explained(fmt.Sprintf("make the inquiry about %s%s due", chargeID, refundID), err)
	}
	return Asked(asked), nil
}
