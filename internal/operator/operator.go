// Package operator is what a person may see and do: list keys, read the story
// of a key or an order, end a key by hand. It works as the owner of the
// schemas, also where the guard is installed alone.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNotFound is returned for a key or an order that is not there.
var ErrNotFound = errors.New("not found")

// Desk is where a person works.
type Desk struct {
	pool     *pgxpool.Pool
	payments bool
}

// New makes a Desk over a pool whose role owns the schemas.
func New(ctx context.Context, pool *pgxpool.Pool) (*Desk, error) {
	d := &Desk{pool: pool}
	err := pool.QueryRow(ctx, `SELECT pg_catalog.to_regnamespace('payments') IS NOT NULL`).Scan(&d.payments)
	if err != nil {
		return nil, fmt.Errorf("look for schema payments: %w", err)
	}
	return d, nil
}

// Key is one idempotency key, without its response.
type Key struct {
	Scope          string     `json:"scope"`
	Key            string     `json:"key"`
	State          string     `json:"state"`
	RequestPath    string     `json:"request"`
	Fence          int64      `json:"fence"`
	ResponseStatus *int       `json:"response_status"`
	CreatedAt      time.Time  `json:"created_at"`
	LeaseUntil     time.Time  `json:"lease_until"`
	CompletedAt    *time.Time `json:"completed_at"`
	ExpiresAt      time.Time  `json:"expires_at"`
	// Age is how long ago the key was claimed, by the database's clock.
	Age time.Duration `json:"-"`
}

// Filter says which keys to list; an empty field is no condition.
type Filter struct {
	Scope, Prefix, State string
	OlderThan            time.Duration
	Limit                int
}

const keyColumns = `k.scope, k.key, k.state, k.request_path, k.fence, k.response_status, k.created_at, k.lease_until,
       k.completed_at, k.expires_at, pg_catalog.clock_timestamp() - k.created_at`

// Keys lists the newest keys first.
func (d *Desk) Keys(ctx context.Context, f Filter) ([]Key, error) {
	rows, err := d.pool.Query(ctx, `
		SELECT `+keyColumns+`
		  FROM guard.operator_list(p_scope => nullif($1::text, ''), p_prefix => nullif($2::text, ''),
		       p_state => nullif($3::text, ''), p_older_than => nullif($4::interval, '0'), p_limit => $5::int) AS k`,
		f.Scope, f.Prefix, f.State, f.OlderThan, f.Limit)
	if err != nil {
		return nil, explained("list the keys", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Key])
	return keys, explained("list the keys", err)
}

// Event is one entry of a story.
type Event struct {
	At      time.Time `json:"at"`
	Source  string    `json:"source"`
	Event   string    `json:"event"`
	Subject string    `json:"subject"`
	// Detail holds facts of the event, by name.
	Detail map[string]any `json:"detail"`
}

// Fact is one detail of an event or a case.
type Fact struct{ Name, Value string }

// Facts lists details by name.
func Facts(detail map[string]any) []Fact {
	facts := make([]Fact, 0, len(detail))
	for _, name := range slices.Sorted(maps.Keys(detail)) {
		value := fmt.Sprint(detail[name])
		if number, ok := detail[name].(float64); ok {
			value = strconv.FormatFloat(number, 'f', -1, 64)
		}
		facts = append(facts, Fact{name, value})
	}
	return facts
}

// KeyStory is a key with what is known of it. Key is nil when it was released
// or purged and only its traces are left.
type KeyStory struct {
	Key    *Key     `json:"key"`
	Orders []string `json:"orders"`
	Story  []Event  `json:"story"`
}

// Key tells the story of one key, or ErrNotFound.
func (d *Desk) Key(ctx context.Context, scope, key string) (KeyStory, error) {
	story := KeyStory{Orders: []string{}, Story: []Event{}}
	rows, err := d.pool.Query(ctx, `SELECT `+keyColumns+` FROM guard.inspect(p_scope => $1, p_key => $2) AS k`, scope, key)
	if err != nil {
		return story, explained("look the key up", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Key])
	if err != nil {
		return story, explained("look the key up", err)
	}
	if len(found) == 1 {
		story.Key = &found[0]
	}
	if story.Orders, err = d.ordersOf(ctx, scope, key); err != nil {
		return story, err
	}
	if story.Story, err = d.keyEvents(ctx, scope, key, story.Orders); err != nil {
		return story, err
	}
	if story.Key == nil && len(story.Story) == 0 {
		return story, ErrNotFound
	}
	return story, nil
}

func (d *Desk) ordersOf(ctx context.Context, scope, key string) ([]string, error) {
	if !d.payments {
		return []string{}, nil
	}
	rows, err := d.pool.Query(ctx, `SELECT payments.operator_orders_of(p_scope => $1, p_key => $2) AS o ORDER BY o`, scope, key)
	if err != nil {
		return nil, explained("look for the key's orders", err)
	}
	orders, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return orders, explained("look for the key's orders", err)
}

// keyEventsSQL merges what the key's row, its operators and its orders tell.
const keyEventsSQL = `
SELECT e.at, e.source, e.event, e.subject, e.detail
  FROM (SELECT 0, h.at, 'operator', 'operator_' || h.action, $2::text,
               pg_catalog.jsonb_build_object('actor', h.actor, 'reason', h.reason, 'forced', h.forced)
          FROM guard.operator_history(p_scope => $1::text, p_key => $2::text) AS h
        UNION ALL
        SELECT t.place, t.at, 'key', t.event, $2::text, t.detail
          FROM guard.inspect(p_scope => $1::text, p_key => $2::text) AS k
         CROSS JOIN LATERAL (VALUES
               (0, k.created_at, 'key_claimed', pg_catalog.jsonb_build_object('request', k.request_path)),
               (0, CASE WHEN k.locked_at > k.created_at THEN k.locked_at END, 'key_taken_over',
                pg_catalog.jsonb_build_object('fence', k.fence)),
               (2, CASE k.state WHEN 'in_doubt' THEN k.lease_until END, 'lease_ended', '{}'),
               (2, k.completed_at, 'response_stored',
                pg_catalog.jsonb_build_object('status', k.response_status, 'bytes', k.response_bytes))
               ) AS t (place, at, event, detail)
         WHERE t.at IS NOT NULL
       ) AS e (place, at, source, event, subject, detail)
 ORDER BY e.at, e.place`

// keyOrdersSQL has what the orders of a key tell beside the key's own events.
const keyOrdersSQL = `
SELECT e.at, e.source, e.event, e.subject, e.detail
  FROM pg_catalog.unnest($1::text[]) AS o (order_id)
 CROSS JOIN LATERAL payments.order_story(p_order_id => o.order_id) AS e
 WHERE e.source <> 'key' AND pg_catalog.left(e.event, 9) <> 'operator_'
 ORDER BY e.at`

func (d *Desk) keyEvents(ctx context.Context, scope, key string, orders []string) ([]Event, error) {
	events, err := d.events(ctx, keyEventsSQL, scope, key)
	if err != nil || len(orders) == 0 {
		return events, err
	}
	others, err := d.events(ctx, keyOrdersSQL, orders)
	return merge(events, others), err
}

func (d *Desk) events(ctx context.Context, sql string, args ...any) ([]Event, error) {
	rows, err := d.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, explained("read the story", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
	return events, explained("read the story", err)
}

// merge joins two stories that are in time order; at the same moment a comes
// first.
func merge(a, b []Event) []Event {
	merged := make([]Event, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if b[0].At.Before(a[0].At) {
			merged, b = append(merged, b[0]), b[1:]
		} else {
			merged, a = append(merged, a[0]), a[1:]
		}
	}
	return append(append(merged, a...), b...)
}

// Order is an order with all that belongs to it.
type Order struct {
	ID           string    `json:"order_id"`
	Merchant     string    `json:"merchant"`
	Amount       int64     `json:"amount"`
	Currency     string    `json:"currency"`
	Status       string    `json:"status"`
	PaidChargeID *string   `json:"paid_charge_id"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
	Items        []struct {
		SKU      string `json:"sku"`
		Quantity int64  `json:"quantity"`
		Stock    string `json:"stock"`
	} `json:"items"`
	Charges []Movement `json:"charges"`
	Refunds []Movement `json:"refunds"`
	Cases   []struct {
		ID         int64          `json:"case_id"`
		Kind       string         `json:"kind"`
		Detail     map[string]any `json:"detail"`
		OpenedAt   time.Time      `json:"opened_at"`
		ResolvedAt *time.Time     `json:"resolved_at"`
	} `json:"cases"`
	Story []Event `json:"story"`
}

// Movement is a charge or a refund.
type Movement struct {
	ChargeID       string     `json:"charge_id"`
	RefundID       string     `json:"refund_id,omitempty"`
	IdempotencyKey string     `json:"idempotency_key"`
	Provider       string     `json:"provider,omitempty"`
	Amount         int64      `json:"amount"`
	Currency       string     `json:"currency"`
	Attempt        int        `json:"attempt,omitempty"`
	Status         string     `json:"status"`
	TradeNo        *string    `json:"trade_no"`
	FailureCode    *string    `json:"failure_code"`
	FailureMessage *string    `json:"failure_message"`
	DueAt          *time.Time `json:"due_at"`
	Inquiries      int        `json:"inquiries"`
	CreatedAt      time.Time  `json:"created_at"`
	UpdatedAt      time.Time  `json:"updated_at"`
}

// ID is the number of the refund, or else of the charge.
func (m Movement) ID() string {
	if m.RefundID != "" {
		return m.RefundID
	}
	return m.ChargeID
}

// Order shows one order of any merchant, or ErrNotFound.
func (d *Desk) Order(ctx context.Context, id string) (Order, error) {
	var order Order
	if !d.payments {
		return order, errors.New("schema payments is not installed in this database: it has keys and no orders")
	}
	var document []byte
	if err := d.pool.QueryRow(ctx, `SELECT payments.operator_order(p_order_id => $1)`, id).Scan(&document); err != nil {
		return order, explained("look the order up", err)
	}
	if document == nil {
		return order, ErrNotFound
	}
	if err := json.Unmarshal(document, &order); err != nil {
		return order, fmt.Errorf("read order %s: %w", id, err)
	}
	return order, nil
}

// explained adds what to do where the role has not the rights of the owner.
func explained(what string, err error) error {
	if err == nil {
		return nil
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42501" {
		return fmt.Errorf("%s: %w: connect as the owner of the schemas", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
