package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/operator"
	"github.com/payonce/payonce/internal/pgtest"
)

// inDoubt begins a charge of order-1 under key pay-1 and leaves it in doubt,
// long enough ago for its lease to be over.
func inDoubt(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	run(t, conn, `
		SELECT payments.begin_charge(p_merchant => 'shop', p_key => 'pay-1', p_request_path => 'POST /v1/charges',
		       p_request_hash => pg_catalog.sha256('a'), p_charge_id => 'ch_1', p_order_id => 'order-1',
		       p_provider => 'alipay', p_method => '', p_amount => 1050, p_currency => 'CNY')`)
	run(t, conn, `
		SELECT payments.abandon_charge(p_merchant => 'shop', p_key => 'pay-1', p_fence => k.fence, p_charge_id => 'ch_1',
		       p_code => 'timeout', p_message => NULL)
		  FROM guard.idempotency_keys AS k`)
}

// claimed claims a key that is of no charge.
func claimed(t *testing.T, conn *pgx.Conn, key, lease string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), `
		SELECT guard.claim(p_scope => 'shop', p_key => $1, p_request_path => 'POST /orders',
		       p_request_hash => pg_catalog.sha256('a'), p_lease => $2::text::interval)`, key, lease)
	require.NoError(t, err)
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func one(t *testing.T, conn *pgx.Conn, sql string) (value string) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	return value
}

func TestKeysList(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	text, code := command(t, "", "keys", "list", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Equal(t, "no such keys\n", text)

	inDoubt(t, conn)
	claimed(t, conn, "held-1", "1 hour")
	claimed(t, conn, "\x1b[31mred", "1 hour")
	text, code = command(t, "", "keys", "list", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Regexp(t, `(?m)^SCOPE +KEY +STATE +AGE +RESPONSE +REQUEST +EXPIRES$`, text)
	require.Regexp(t, `(?m)^shop +pay-1 +in_doubt +\d+s +- +POST /v1/charges +\S+Z$`, text)
	require.Regexp(t, `(?m)^shop +held-1 +held +`, text)
	require.NotContains(t, text, "\x1b", "neither colours nor what a client put into its key")

	for filters, keys := range map[string][]string{
		"--state in_doubt":              {"pay-1"},
		"--prefix held":                 {"held-1"},
		"--scope shop --limit 1":        {"\x1b[31mred"},
		"--scope webhook":               nil,
		"--older-than 1h":               nil,
		"--older-than 1ms --state=held": {"\x1b[31mred", "held-1"},
	} {
		args := append([]string{"keys", "list", "--json", "--database-url", db.URL}, strings.Fields(filters)...)
		text, code = command(t, "", args...)
		require.Zero(t, code, text)
		var found []string
		for line := range strings.Lines(text) {
			var key operator.Key
			require.NoError(t, json.Unmarshal([]byte(line), &key))
			found = append(found, key.Key)
		}
		require.Equal(t, keys, found, filters)
	}

	text, code = command(t, "", "keys", "list", "--state", "lost", "--database-url", db.URL)
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "p_state must be held")
	text, code = command(t, "", "keys", "list", "--database-url", db.AppURL)
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "connect as the owner")
}

// An operator finds a payment in doubt, learns at the provider that it was
// paid, and says so.
func TestKeysResolveACharge(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	inDoubt(t, conn)

	text, code := command(t, "no\n", "keys", "resolve", "shop", "pay-1", "--moved", "--reason", "seen", "--database-url", db.URL)
	require.Equal(t, exitRefused, code)
	require.Contains(t, text, "Resolve key pay-1 of scope shop (in_doubt, claimed ")
	require.Contains(t, text, "order order-1")
	require.Contains(t, text, "not confirmed: nothing was changed")
	text, code = command(t, "", "keys", "resolve", "shop", "pay-1", "--status", "200", "--reason", "seen", "--yes", "--database-url", db.URL)
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "--moved or --refused")
	require.Equal(t, "in_doubt", one(t, conn, `SELECT status FROM payments.charges`), "as before")

	text, code = command(t, "yes\n", "keys", "resolve", "shop", "pay-1", "--moved", "--trade-no", "T1",
		"--reason", "paid in Alipay's console", "--actor", "ann", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Contains(t, text, "resolved; ch_1 of order order-1 is succeeded\n")
	require.Equal(t, "paid", one(t, conn, `SELECT status FROM payments.orders`))
	require.Equal(t, "201", one(t, conn, `SELECT response_status::text FROM guard.idempotency_keys`))
	require.Equal(t, "ann: paid in Alipay's console", one(t, conn, `
		SELECT pg_catalog.concat_ws(': ', detail ->> 'actor', detail ->> 'reason') FROM payments.journal
		 WHERE event = 'operator_resolve' ORDER BY entry_id DESC LIMIT 1`))
	require.Equal(t, "replay", one(t, conn, `
		SELECT (payments.begin_charge(p_merchant => 'shop', p_key => 'pay-1', p_request_path => 'POST /v1/charges',
		       p_request_hash => pg_catalog.sha256('a'), p_charge_id => 'ch_2', p_order_id => 'order-1',
		       p_provider => 'alipay', p_method => '', p_amount => 1050, p_currency => 'CNY')).outcome`))

	text, code = command(t, "", "keys", "resolve", "shop", "pay-1", "--refused", "--reason", "again", "--yes", "--database-url", db.URL)
	require.Equal(t, exitRefused, code)
	require.Contains(t, text, "has its response already")
}

func TestKeysResolveARefusal(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	inDoubt(t, conn)
	text, code := command(t, "", "keys", "resolve", "shop", "pay-1", "--refused", "--code", "NO_BALANCE",
		"--reason", "closed", "--yes", "--json", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.JSONEq(t, `{"outcome": "taken", "order_id": "order-1", "id": "ch_1", "status": "failed"}`, text)
	require.Equal(t, "402 NO_BALANCE", one(t, conn, `
		SELECT k.response_status || ' ' || c.failure_code FROM guard.idempotency_keys AS k, payments.charges AS c`))
}

func TestKeysRelease(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	inDoubt(t, conn)
	text, code := command(t, "", "keys", "release", "shop", "pay-1", "--yes", "--database-url", db.URL)
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, `required flag(s) "reason" not set`)

	text, code = command(t, "", "keys", "release", "shop", "pay-1", "--reason", "no such trade", "--yes", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Contains(t, text, "released; ch_1 of order order-1 is failed\n")
	require.Equal(t, "unsent", one(t, conn, `SELECT failure_kind FROM payments.charges`))
	require.Equal(t, "0", one(t, conn, `SELECT count(*)::text FROM guard.idempotency_keys`))

	text, code = command(t, "", "keys", "release", "shop", "pay-1", "--reason", "again", "--yes", "--database-url", db.URL)
	require.Equal(t, exitRefused, code)
	require.Contains(t, text, "there is no such key")
	text, code = command(t, "", "keys", "show", "shop", "pay-1", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Contains(t, text, "the key is gone: released or purged")
	require.Regexp(t, `operator +operator_release +pay-1 +.*reason=no such trade`, text)
}

// A key of other work, on a database with the guard alone.
func TestKeysOfTheGuardAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	run(t, conn, `DROP SCHEMA payments CASCADE`)
	claimed(t, conn, "held", "1 hour")
	claimed(t, conn, "free", "1 hour")
	claimed(t, conn, "lost", "1 microsecond")

	text, code := command(t, "", "keys", "release", "shop", "held", "--reason", "why", "--yes", "--database-url", db.URL)
	require.Equal(t, exitRefused, code)
	require.Contains(t, text, "a holder is at work on this key")
	text, code = command(t, "", "keys", "release", "shop", "free", "--reason", "why", "--force", "--yes", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Equal(t, "held, lost", one(t, conn, `SELECT pg_catalog.string_agg(key, ', ' ORDER BY key) FROM guard.idempotency_keys`))

	text, code = command(t, "", "keys", "resolve", "shop", "lost", "--moved", "--reason", "why", "--yes", "--database-url", db.URL)
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "--status and --body-file")
	body := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(body, []byte("done\x00"), 0o600))
	text, code = command(t, "", "keys", "resolve", "shop", "lost", "--status", "200", "--body-file", body,
		"--content-type", "text/plain", "--reason", "why", "--yes", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Equal(t, `200 {"Content-Type": "text/plain"} done\000`, one(t, conn, `
		SELECT pg_catalog.concat_ws(' ', response_status, response_headers, pg_catalog.encode(response_body, 'escape'))
		  FROM guard.idempotency_keys WHERE key = 'lost'`))
	text, code = command(t, "", "orders", "show", "order-1", "--database-url", db.URL)
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "schema payments is not installed")
}

// The story of an order, from the claim to the mail.
func TestOrdersShow(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	inDoubt(t, conn)
	run(t, conn, `
		SELECT payments.apply_notification(p_provider => 'alipay', p_event_key => 'webhook:alipay:order-1', p_event => 'paid',
		       p_order_id => 'order-1', p_trade_no => 'T1', p_amount => 1050, p_currency => 'CNY', p_refund_id => NULL,
		       p_refunded => NULL, p_refunded_total => NULL, p_code => NULL)`)
	_, code := command(t, "", "keys", "resolve", "shop", "pay-1", "--refused", "--reason", "I believe so", "--yes", "--database-url", db.URL)
	require.Zero(t, code)
	require.Equal(t, "succeeded", one(t, conn, `SELECT status FROM payments.charges`), "what a provider reported outranks a person")
	run(t, conn, `UPDATE payments.outbox SET delivered_at = pg_catalog.clock_timestamp(), attempts = 2`)

	text, code := command(t, "", "orders", "show", "order-1", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Contains(t, text, "order order-1 of merchant shop: 10.50 CNY, paid\n")
	require.Regexp(t, `(?m)^charge +ch_1 +succeeded +10\.50 CNY +alipay +T1 +- +- +pay-1$`, text)
	story := []string{
		"key_claimed", "charge_started", "charge_in_doubt", "notified", "charge_succeeded", "order_confirmation_written",
		"operator_resolve", "response_stored", "order_confirmation_delivered",
	}
	var order operator.Order
	asJSON, code := command(t, "", "orders", "show", "order-1", "--json", "--database-url", db.URL)
	require.Zero(t, code, asJSON)
	require.NoError(t, json.Unmarshal([]byte(asJSON), &order))
	var told []string
	var before time.Time
	for _, event := range order.Story {
		require.False(t, event.At.Before(before), "in time order")
		before = event.At
		told = append(told, event.Event)
		require.Contains(t, text, event.Event)
	}
	for _, event := range story {
		require.Contains(t, told, event)
	}

	text, code = command(t, "", "keys", "show", "shop", "pay-1", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Contains(t, text, "key pay-1 of scope shop is completed\n")
	require.Contains(t, text, "order order-1\n")
	for _, event := range []string{"key_claimed", "charge_in_doubt", "notified", "operator_resolve", "response_stored"} {
		require.Contains(t, text, event)
	}
	text, code = command(t, "", "keys", "show", "webhook", "webhook:alipay:order-1", "--database-url", db.URL)
	require.Zero(t, code, text)
	require.Contains(t, text, "order order-1\n")

	for _, args := range [][]string{{"orders", "show", "none"}, {"keys", "show", "shop", "none"}} {
		text, code = command(t, "", append(args, "--database-url", db.URL)...)
		require.Equal(t, exitRefused, code)
		require.Contains(t, text, "there is no")
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	require.Equal(t, "x", painter(false).paint(red, "x"))
	require.Equal(t, "\x1b[31mx\x1b[39m", painter(true).paint(red, "x"))
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { _ = terminal.Close() }()
	require.True(t, bool(painterFor(terminal)))
	t.Setenv("NO_COLOR", "1")
	require.False(t, bool(painterFor(terminal)))
	t.Setenv("NO_COLOR", "")
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	require.False(t, bool(painterFor(file)))
}

func TestAge(t *testing.T) {
	t.Parallel()
	for d, text := range map[time.Duration]string{
		1500 * time.Millisecond: "2s", 90 * time.Second: "1m30s", 61 * time.Minute: "1h1m", 50 * time.Hour: "2d2h",
	} {
		require.Equal(t, text, age(d))
	}
}
