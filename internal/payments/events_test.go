package payments_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The events of one order's life, as calls on order $1. The API's own answer is
// one of them: it may come before any notification or after all.
var events = map[string]string{
	"answer":  `SELECT test.answer($1)`,
	"paid":    `SELECT payments.apply_notification('alipay', 'webhook:alipay:' || $1, 'paid', $1, 't', 1000, 'CNY', NULL, NULL, NULL, NULL)`,
	"waiting": `SELECT payments.apply_notification('alipay', 'webhook:alipay:' || $1 || ':w', 'waiting', $1, 't', 1000, 'CNY', NULL, NULL, NULL, NULL)`,
	"failed":  `SELECT payments.apply_notification('alipay', 'webhook:alipay:' || $1 || ':f', 'failed', $1, 't', 1000, 'CNY', NULL, NULL, NULL, 'X')`,
	"closed":  `SELECT payments.apply_notification('alipay', 'webhook:alipay:' || $1 || ':c', 'closed', $1, 't', 1000, 'CNY', NULL, NULL, NULL, NULL)`,
	"partial": `SELECT payments.apply_notification('alipay', 'webhook:alipay:' || $1 || ':r1', 'refund_partial', $1, 't', 1000, 'CNY', $1 || '-r1', NULL, 500, NULL)`,
	"full":    `SELECT payments.apply_notification('alipay', 'webhook:alipay:' || $1 || ':r2', 'refund_full', $1, 't', 1000, 'CNY', $1 || '-r2', NULL, 1000, NULL)`,
}

// wechatEvents are those of WeChat Pay: it tells the amount of each refund and
// not the total, and of refunds that did not arrive or were closed.
var wechatEvents = map[string]string{
	"answer":    `SELECT test.answer($1)`,
	"paid":      `SELECT payments.apply_notification('wechat', 'webhook:wechat:' || $1, 'paid', $1, 't', 1000, 'CNY', NULL, NULL, NULL, NULL)`,
	"unarrived": `SELECT payments.apply_notification('wechat', 'webhook:wechat:' || $1 || ':r1:ABNORMAL', 'paid', $1, 't', 1000, 'CNY', NULL, NULL, NULL, NULL)`,
	"refused":   `SELECT payments.apply_notification('wechat', 'webhook:wechat:' || $1 || ':r3:CLOSED', 'refund_failed', $1, 't', 1000, 'CNY', $1 || '-r3', 300, NULL, 'CLOSED')`,
	"partial":   `SELECT payments.apply_notification('wechat', 'webhook:wechat:' || $1 || ':r1', 'refund_partial', $1, 't', 1000, 'CNY', $1 || '-r1', 500, NULL, NULL)`,
	"rest":      `SELECT payments.apply_notification('wechat', 'webhook:wechat:' || $1 || ':r2', 'refund_partial', $1, 't', 1000, 'CNY', $1 || '-r2', 500, NULL, NULL)`,
}

// twoctwopEvents are those of 2C2P: each attempt of the buyer's has a number of
// its own, and refunds are asked about instead of told.
var twoctwopEvents = map[string]string{
	"answer":  `SELECT test.answer($1)`,
	"paid":    `SELECT payments.apply_notification('2c2p', 'webhook:2c2p:' || $1 || ':2', 'paid', $1, '2', 1000, 'CNY', NULL, NULL, NULL, '0000')`,
	"settled": `SELECT payments.apply_notification('2c2p', 'webhook:2c2p:' || $1 || ':2:4110', 'paid', $1, '2', 1000, 'CNY', NULL, NULL, NULL, '4110')`,
	"waiting": `SELECT payments.apply_notification('2c2p', 'webhook:2c2p:' || $1 || ':2:0001', 'waiting', $1, '2', 1000, 'CNY', NULL, NULL, NULL, '0001')`,
	"failed":  `SELECT payments.apply_notification('2c2p', 'webhook:2c2p:' || $1 || ':1:4005', 'failed', $1, '1', 1000, 'CNY', NULL, NULL, NULL, '4005')`,
	"closed":  `SELECT payments.apply_notification('2c2p', 'webhook:2c2p:' || $1 || ':1:0003', 'closed', $1, '1', 1000, 'CNY', NULL, NULL, NULL, '0003')`,
}

// stripeEvents are those of Stripe: it numbers its events, tells each refund of
// ours as it is made and as it ends, and the total of the charge. Its events of
// an intent that waits, failed or was cancelled are of no effect and come here
// as what they might be taken for.
var stripeEvents = map[string]string{
	"answer":      `SELECT test.answer($1)`,
	"paid":        `SELECT payments.apply_notification('stripe', 'webhook:stripe:evt_' || $1, 'paid', $1, 't', 1000, 'CNY', NULL, NULL, NULL, NULL)`,
	"failed":      `SELECT payments.apply_notification('stripe', 'webhook:stripe:evt_f' || $1, 'failed', $1, 't', 1000, 'CNY', NULL, NULL, NULL, 'card_declined')`,
	"closed":      `SELECT payments.apply_notification('stripe', 'webhook:stripe:evt_c' || $1, 'closed', $1, 't', 1000, 'CNY', NULL, NULL, NULL, NULL)`,
	"partial":     `SELECT payments.apply_notification('stripe', 'webhook:stripe:evt_r1' || $1, 'refund_partial', $1, 't', 1000, 'CNY', $1 || '-r1', 500, NULL, NULL)`,
	"part so far": `SELECT payments.apply_notification('stripe', 'webhook:stripe:evt_c1' || $1, 'refund_partial', $1, 't', 1000, 'CNY', NULL, NULL, 500, NULL)`,
	"full":        `SELECT payments.apply_notification('stripe', 'webhook:stripe:evt_c2' || $1, 'refund_full', $1, 't', 1000, 'CNY', NULL, NULL, 1000, NULL)`,
	"refused":     `SELECT payments.apply_notification('stripe', 'webhook:stripe:evt_r3' || $1, 'refund_failed', $1, 't', 1000, 'CNY', $1 || '-r3', 300, NULL, 'failed')`,
}

// lives are what happens to orders, for each provider in its own events, and
// how all of it ends.
var lives = []struct {
	provider string
	events   map[string]string
	end      string
	happens  [][]string
}{
	{"alipay", events, "refunded", [][]string{
		{"answer", "paid", "paid", "waiting", "failed", "partial", "full"},
		{"answer", "paid", "paid", "waiting", "closed", "partial", "full"},
		{"answer", "paid", "failed", "closed", "partial", "full"},
	}},
	{"wechat", wechatEvents, "refunded", [][]string{
		{"answer", "paid", "paid", "unarrived", "partial", "rest"},
		{"answer", "paid", "unarrived", "refused", "partial", "rest"},
	}},
	{"2c2p", twoctwopEvents, "paid", [][]string{
		{"answer", "paid", "paid", "waiting", "failed", "closed"},
		{"answer", "paid", "settled", "failed", "failed"},
	}},
	{"stripe", stripeEvents, "refunded", [][]string{
		{"answer", "paid", "paid", "failed", "closed", "partial", "full"},
		{"answer", "paid", "paid", "part so far", "partial", "full"},
		{"answer", "paid", "refused", "partial", "full"},
	}},
}

// begin starts a charge on order $1, which buys one piece of stock.
const begin = `WITH o AS (
	INSERT INTO payments.orders (order_id, merchant, amount, currency, status, created_at, updated_at)
	VALUES ($1, 'm', 1000, 'CNY', 'pending', now(), now()) RETURNING order_id
) INSERT INTO payments.order_items (order_id, sku, quantity) SELECT order_id, $2, 1 FROM o`

const charge = `SELECT payments.begin_charge('m', $1, 'POST /v1/charges', sha256('a'), 'ch_' || $1, $1, $2, '', 1000, 'CNY')`

// answer ends the charge as the API does: pending, unless a notification knew
// better, which it then answers.
const answer = `CREATE SCHEMA test;
CREATE FUNCTION test.answer(p_order text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	v_fence  bigint := (SELECT i.fence FROM guard.inspect('m', p_order) AS i);
	v_result payments.charge_result;
BEGIN
	v_result := payments.finish_charge('m', p_order, v_fence, 'ch_' || p_order, 'pending', 't', '{}', NULL, NULL, 201, '{}', 'pending');
	IF v_result.outcome = 'superseded' THEN
		v_result := payments.finish_charge('m', p_order, v_fence, 'ch_' || p_order, (v_result.charge).status, 't', '{}', NULL, NULL,
			201, '{}', convert_to((v_result.charge).status, 'UTF8'));
	END IF;
	IF v_result.outcome <> 'completed' THEN
		RAISE EXCEPTION 'answer: %', v_result.outcome;
	END IF;
	RETURN v_result.outcome;
END $$`

// permutations calls do with every order of the names; equal names are not
// told apart.
func permutations(names []string, do func([]string)) {
	var rest func(order []string, left map[string]int)
	rest = func(order []string, left map[string]int) {
		if len(order) == len(names) {
			do(append([]string{}, order...))
			return
		}
		for name := range left {
			if left[name] > 0 {
				left[name]--
				rest(append(order, name), left)
				left[name]++
			}
		}
	}
	left := map[string]int{}
	for _, name := range names {
		left[name]++
	}
	rest(nil, left)
}

func setup(t *testing.T) (db *pgtest.DB, pool *pgxpool.Pool) {
	t.Helper()
	db = pgtest.New(t)
	pool, err := pgxpool.New(t.Context(), db.URL)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), answer)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "SELECT payments.set_stock('tea-' || n, 1000000) FROM generate_series(0, 3) AS n")
	require.NoError(t, err)
	return db, pool
}

// Whatever the order of the events is, including two deliveries of the payment,
// the end is one and the same, and nothing moves backward on the way.
func TestEveryOrderOfEventsEndsTheSame(t *testing.T) {
	t.Parallel()
	_, pool := setup(t)
	// A trigger sees each change of an order's status.
	_, err := pool.Exec(t.Context(), `CREATE FUNCTION test.forward() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE v_rank jsonb := '{"pending": 0, "processing": 1, "closed": 2, "paid": 3, "partially_refunded": 4, "refunded": 5}';
	BEGIN
		IF (v_rank ->> new.status)::int < (v_rank ->> old.status)::int OR new.amount <> old.amount OR new.currency <> old.currency THEN
			RAISE EXCEPTION 'order % moved from % to %', new.order_id, old.status, new.status;
		END IF;
		RETURN new;
	END $$;
	CREATE TRIGGER forward BEFORE UPDATE ON payments.orders FOR EACH ROW EXECUTE FUNCTION test.forward()`)
	require.NoError(t, err)

	type life struct {
		provider string
		events   map[string]string
		order    []string
	}
	orders := make(chan life)
	var workers sync.WaitGroup
	var mu sync.Mutex
	count := 0
	for worker := range 4 {
		workers.Go(func() {
			for one := range orders {
				mu.Lock()
				count++
				id := fmt.Sprintf("o%d-%d", worker, count)
				mu.Unlock()
				batch := &pgx.Batch{}
				batch.Queue(begin, id, fmt.Sprintf("tea-%d", worker))
				batch.Queue(charge, id, one.provider)
				for _, event := range one.order {
					batch.Queue(one.events[event], id)
				}
				if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
					t.Errorf("%s, %v: %v", one.provider, one.order, err)
				}
			}
		})
	}
	for _, of := range lives {
		for _, names := range of.happens {
			permutations(names, func(order []string) { orders <- life{of.provider, of.events, order} })
		}
	}
	close(orders)
	workers.Wait()
	t.Logf("%d orders of events", count)
	require.Equal(t, 2520+2520+720+360+720+360+60+2520+360+120, count)

	for _, of := range lives {
		var elsewhere int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM payments.orders AS o
		  JOIN payments.charges AS c ON c.charge_id = o.paid_charge_id
		 WHERE c.provider = $1 AND o.status <> $2`, of.provider, of.end).Scan(&elsewhere))
		require.Zero(t, elsewhere, "%s orders that are not %s", of.provider, of.end)
	}
	for what, sql := range map[string]string{
		"order not paid":           `SELECT count(*) FROM payments.orders WHERE paid_charge_id IS NULL`,
		"charge not succeeded":     `SELECT count(*) FROM payments.charges WHERE status <> 'succeeded'`,
		"confirmation not once":    `SELECT count(*) FROM payments.orders AS o WHERE 1 <> (SELECT count(*) FROM payments.outbox AS b WHERE b.order_id = o.order_id AND b.kind = 'order_confirmation')`,
		"payment not once":         `SELECT count(*) FROM payments.orders AS o WHERE 1 <> (SELECT count(*) FROM payments.journal AS j WHERE j.order_id = o.order_id AND j.event = 'charge_succeeded')`,
		"refunds not the capture":  `SELECT count(*) FROM payments.orders AS o WHERE o.amount <> (SELECT sum(r.amount) FROM payments.refunds AS r WHERE r.order_id = o.order_id AND r.status = 'succeeded')`,
		"stock not taken once":     `SELECT count(*) FROM payments.order_items WHERE stock <> 'taken'`,
		"stock reserved":           `SELECT sum(reserved) FROM payments.inventory`,
		"stock lost or multiplied": `SELECT 4000000 - sum(on_hand) - (SELECT count(*) FROM payments.orders) FROM payments.inventory`,
		"key without an answer":    `SELECT count(*) FROM guard.idempotency_keys WHERE completed_at IS NULL`,
	} {
		var wrong int
		require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&wrong))
		require.Zero(t, wrong, what)
	}
}

// FF-27: two channels pay one order. The second payment is kept and put before
// a person; it is no second sale and no second mail.
func TestFF27_TwoChannelsPayOneOrder(t *testing.T) {
	t.Parallel()
	_, pool := setup(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec(begin, "o1", "tea-0")
	exec(charge, "o1", "alipay")
	exec(events["answer"], "o1") // Alipay's trade waits for the buyer, who turns to WeChat Pay.
	exec(`SELECT payments.begin_charge('m', 'k2', 'POST /v1/charges', sha256('b'), 'ch_2', 'o1', 'wechat', '', 1000, 'CNY')`)
	exec(`SELECT payments.finish_charge('m', 'k2', (SELECT fence FROM guard.inspect('m', 'k2')), 'ch_2', 'pending', NULL, '{}', NULL, NULL, 201, '{}', '')`)
	wechat := `SELECT payments.apply_notification('wechat', 'webhook:wechat:4200', 'paid', 'o1', '4200', 1000, 'CNY', NULL, NULL, NULL, NULL)`
	exec(wechat)
	for range 3 {
		exec(events["paid"], "o1")
		exec(wechat)
	}
	var status, kind, flagged string
	var paid, mails, sold int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT o.status, (SELECT count(*) FROM payments.charges WHERE status = 'succeeded'),
	       (SELECT count(*) FROM payments.outbox), (SELECT 4000000 - sum(on_hand) FROM payments.inventory)
	  FROM payments.orders AS o`).Scan(&status, &paid, &mails, &sold))
	require.Equal(t, "paid", status)
	require.Equal(t, 2, paid, "both payments are known")
	require.Equal(t, 1, mails)
	require.Equal(t, 1, sold)
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT kind, charge_id FROM payments.cases`).Scan(&kind, &flagged))
	require.Equal(t, "second_payment", kind)
	require.Equal(t, "ch_o1", flagged)

	// Its refund settles the case and leaves the order paid.
	exec(events["full"], "o1")
	var open int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM payments.cases WHERE resolved_at IS NULL), o.status
	  FROM payments.orders AS o`).Scan(&open, &status))
	require.Zero(t, open)
	require.Equal(t, "paid", status)
}

// FF-22: the process that handles a notification dies at a step; the
// redelivery does the work, once.
func TestFF22_KilledInTheMiddleOfANotification(t *testing.T) {
	t.Parallel()
	// What another session holds decides the step at which the handler stands
	// when it is killed.
	steps := map[string]string{
		"at the order":    `SELECT FROM payments.orders WHERE order_id = 'o1' FOR UPDATE`,
		"at the charge":   `SELECT FROM payments.charges WHERE order_id = 'o1' FOR UPDATE`,
		"at the stock":    `SELECT FROM payments.inventory FOR UPDATE`,
		"at the outbox":   `LOCK TABLE payments.outbox IN EXCLUSIVE MODE`,
		"at the journal":  `LOCK TABLE payments.journal IN EXCLUSIVE MODE`,
		"at its own key":  `INSERT INTO guard.idempotency_keys (scope, key, request_path, request_hash, fence, locked_at, lease_until, created_at, expires_at) VALUES ('webhook', 'webhook:alipay:o1', 'x', sha256('x'), 1, now(), now(), now(), now())`,
		"at the complete": `SELECT test.stop_completing()`,
	}
	for step, hold := range steps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			db, pool := setup(t)
			_, err := pool.Exec(t.Context(), begin, "o1", "tea-0")
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), charge, "o1", "alipay")
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), `CREATE FUNCTION test.wait() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(7); RETURN new; END $$;
			CREATE TRIGGER wait BEFORE UPDATE ON guard.idempotency_keys FOR EACH ROW WHEN (new.scope = 'webhook') EXECUTE FUNCTION test.wait();
			CREATE FUNCTION test.stop_completing() RETURNS void LANGUAGE sql AS $$ SELECT pg_catalog.pg_advisory_xact_lock(7) $$`)
			require.NoError(t, err)
			holder, err := pool.Begin(t.Context())
			require.NoError(t, err)
			_, err = holder.Exec(t.Context(), hold)
			require.NoError(t, err)

			victim, err := pgx.Connect(t.Context(), db.URL)
			require.NoError(t, err)
			died := make(chan error, 1)
			go func() {
				_, err := victim.Exec(context.WithoutCancel(t.Context()), events["paid"], "o1")
				died <- err
			}()
			pid := victim.PgConn().PID()
			require.Eventually(t, func() bool {
				var waits bool
				err := pool.QueryRow(t.Context(), `SELECT coalesce((SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1), false)`, pid).Scan(&waits)
				return err == nil && waits
			}, 20*time.Second, 5*time.Millisecond)
			_, err = pool.Exec(t.Context(), `SELECT pg_terminate_backend($1, 5000)`, pid)
			require.NoError(t, err)
			require.Error(t, <-died)
			require.NoError(t, holder.Rollback(t.Context()))

			for _, expected := range []string{"applied", "duplicate", "duplicate"} {
				var effect string
				require.NoError(t, pool.QueryRow(t.Context(), events["paid"], "o1").Scan(&effect))
				require.Equal(t, expected, effect)
			}
			var mails, sold, paid int
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM payments.outbox),
			       (SELECT 4000000 - sum(on_hand) FROM payments.inventory), (SELECT count(*) FROM payments.journal WHERE event = 'charge_succeeded')`).
				Scan(&mails, &sold, &paid))
			require.Equal(t, []int{1, 1, 1}, []int{mails, sold, paid})
		})
	}
}
