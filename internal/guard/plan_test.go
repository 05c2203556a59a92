package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// planNode is one node of a plan as auto_explain writes it:
// https://www.postgresql.org/docs/current/auto-explain.html
type planNode struct {
	Type      string     `json:"Node Type"`
	Relation  string     `json:"Relation Name"`
	Index     string     `json:"Index Name"`
	IndexCond string     `json:"Index Cond"`
	TIDCond   string     `json:"TID Cond"`
	Cost      float64    `json:"Total Cost"`
	Plans     []planNode `json:"Plans"`
}

func (n planNode) walk(visit func(planNode)) {
	visit(n)
	for _, below := range n.Plans {
		below.walk(visit)
	}
}

// explained is a session that keeps the plan of every statement, those inside
// functions included.
type explained struct {
	*pgx.Conn
	mutex sync.Mutex
	plans []planNode
	err   error
}

func explain(t *testing.T, db *pgtest.DB, level pgx.TxIsoLevel) *explained {
	t.Helper()
	e := &explained{}
	config, err := pgx.ParseConfig(db.URL)
	require.NoError(t, err)
	config.OnNotice = e.keep
	e.Conn, err = pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close(context.WithoutCancel(t.Context())) })
	run(t, e.Conn, `
		LOAD 'auto_explain';
		SET auto_explain.log_min_duration = 0;
		SET auto_explain.log_nested_statements = on;
		SET auto_explain.log_analyze = off;
		SET auto_explain.log_format = json;
		SET auto_explain.log_level = notice;
		SET default_transaction_isolation = '`+string(level)+`'`)
	return e
}

func (e *explained) keep(_ *pgconn.PgConn, notice *pgconn.Notice) {
	_, plan, found := strings.Cut(notice.Message, "plan:\n")
	if !found {
		return
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	var explanation struct{ Plan planNode }
	if err := json.Unmarshal([]byte(plan), &explanation); err != nil {
		e.err = err
		return
	}
	e.plans = append(e.plans, explanation.Plan)
}

// plansOf runs a statement and returns the nodes of all its plans.
func (e *explained) plansOf(t *testing.T, sql string, args ...any) []planNode {
	t.Helper()
	e.plans = nil
	_, err := e.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	require.NoError(t, e.err)
	var nodes []planNode
	for _, plan := range e.plans {
		plan.walk(func(n planNode) { nodes = append(nodes, n) })
	}
	return nodes
}

// strayReads are the nodes that read the key table in another way than by a
// probe of its primary key with both scope and key, or by the address of a row
// that such a probe has found.
func strayReads(nodes []planNode) (stray []planNode) {
	for _, n := range nodes {
		if n.Relation == "idempotency_keys" && !n.probes() {
			stray = append(stray, n)
		}
	}
	return stray
}

func (n planNode) probes() bool {
	switch n.Type {
	case "ModifyTable": // writes what the nodes below it have found
		return true
	case "Tid Scan":
		return n.TIDCond != ""
	case "Bitmap Heap Scan": // without statistics more than one row is expected
		return len(n.Plans) == 1 && n.Plans[0].Type == "Bitmap Index Scan" && n.Plans[0].readsKey()
	case "Index Scan":
		return n.readsKey()
	default:
		return false
	}
}

func (n planNode) readsKey() bool {
	return n.Index == "idempotency_keys_pkey" &&
		strings.Contains(n.IndexCond, "scope = ") && strings.Contains(n.IndexCond, "key = ")
}

// keyCalls meet every outcome of the functions of one key, in an order that
// makes them do so. %d stands for the newest fence.
var keyCalls = []string{
	`SELECT guard.complete('s', 'k', 1, 200, NULL, NULL)`,
	`SELECT guard.is_held('s', 'k')`,
	`SELECT guard.inspect('s', 'k')`,
	`SELECT guard.claim('s', 'k', 'POST /p', sha256('a'))`,
	`SELECT guard.claim('s', 'k', 'POST /p', sha256('a'))`,
	`SELECT guard.claim('s', 'k', 'POST /p', sha256('b'))`,
	`SELECT guard.is_held('s', 'k')`,
	`SELECT guard.inspect('s', 'k')`,
	`SELECT guard.hold('s', 'k', %d)`,
	`SELECT guard.extend('s', 'k', %d, '1 minute')`,
	`SELECT guard.abandon('s', 'k', %d)`,
	`SELECT guard.claim('s', 'k', 'POST /p', sha256('a'))`,
	`SELECT guard.hold('s', 'k', 1)`,
	`SELECT guard.extend('s', 'k', 1, '1 minute')`,
	`SELECT guard.abandon('s', 'k', 1)`,
	`SELECT guard.release('s', 'k', 1)`,
	`SELECT guard.complete('s', 'k', 1, 200, NULL, NULL)`,
	`SELECT guard.complete('s', 'k', %d, 200, NULL, NULL)`,
	`SELECT guard.complete('s', 'k', 1, 200, NULL, NULL)`,
	`SELECT guard.claim('s', 'k', 'POST /p', sha256('a'))`,
	`SELECT guard.claim('s', 'k', 'POST /p', sha256('b'))`,
	`UPDATE guard.idempotency_keys SET expires_at = locked_at WHERE scope = 's' AND key = 'k'`,
	`SELECT guard.claim('s', 'k', 'POST /p', sha256('b'))`,
	`SELECT guard.release('s', 'k', %d)`,
}

// fill makes the table as large as asked, with keys of the same scope.
func fill(t *testing.T, conn *pgx.Conn, size int) {
	t.Helper()
	_, err := conn.Exec(t.Context(), `
		INSERT INTO guard.idempotency_keys
		    (scope, key, request_path, request_hash, fence, locked_at, lease_until, created_at, expires_at)
		SELECT 's', 'k' || n, 'POST /p', sha256('a'), 1, now(), now(), now(), now() + interval '1 day'
		  FROM generate_series(1, $1::int) AS n`, size)
	require.NoError(t, err)
}

// Every function of one key reads the key table through its primary key alone,
// whatever the table's size is, with statistics and without, with plans made
// for one call and with those that PL/pgSQL keeps after the fifth.
func TestPlansAreProbesOfThePrimaryKey(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10, 200_000} {
		t.Run(fmt.Sprintf("%d rows", size), func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			owner := db.Conn(t)
			fill(t, owner, size)
			for _, statistics := range []string{"without statistics", "with statistics"} {
				if statistics == "with statistics" {
					run(t, owner, "ANALYZE guard.idempotency_keys")
				}
				for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
					t.Run(statistics+", "+string(level), func(t *testing.T) {
						requireProbes(t, owner, explain(t, db, level))
					})
				}
			}
		})
	}
}

func requireProbes(t *testing.T, owner *pgx.Conn, session *explained) {
	t.Helper()
	for range 7 {
		for _, call := range keyCalls {
			if strings.Contains(call, "%d") {
				var fence int64
				require.NoError(t, owner.QueryRow(t.Context(),
					"SELECT fence FROM guard.idempotency_keys WHERE scope = 's' AND key = 'k'").Scan(&fence))
				call = fmt.Sprintf(call, fence)
			}
			nodes := session.plansOf(t, call)
			require.Greater(t, len(nodes), 1, "the statements inside are seen: %s", call)
			if strings.HasPrefix(call, "SELECT") {
				require.Empty(t, strayReads(nodes), call)
			}
		}
	}
}

func TestStrayReadsAreSeen(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	owner := db.Conn(t)
	fill(t, owner, 10)
	run(t, owner, "ANALYZE guard.idempotency_keys")
	stray := func() []planNode {
		t.Helper()
		return strayReads(explain(t, db, pgx.ReadCommitted).plansOf(t, `SELECT guard.claim('s', 'k1', 'POST /p', sha256('b'))`))
	}
	require.Empty(t, stray())

	run(t, owner, "ALTER FUNCTION guard.claim RESET enable_seqscan")
	require.Equal(t, "Seq Scan", stray()[0].Type, "a small table is scanned when that is allowed")
	run(t, owner, "ALTER FUNCTION guard.claim SET enable_seqscan = off; CREATE INDEX another ON guard.idempotency_keys (key)")
	run(t, owner, "ALTER TABLE guard.idempotency_keys DROP CONSTRAINT idempotency_keys_pkey")
	require.Equal(t, "another", stray()[0].Index, "another index")

	for _, half := range []planNode{
		{Type: "Index Scan", Relation: "idempotency_keys", Index: "idempotency_keys_pkey", IndexCond: "(scope = 's'::text)"},
		{Type: "Bitmap Heap Scan", Relation: "idempotency_keys", Plans: []planNode{
			{Type: "Bitmap Index Scan", Index: "idempotency_keys_pkey", IndexCond: "(scope = 's'::text)"},
		}},
		{Type: "Tid Scan", Relation: "idempotency_keys"},
	} {
		require.Len(t, strayReads([]planNode{half}), 1, half.Type)
	}
}

// paymentCalls are the way of a charge, a refund and a notification.
const paymentCalls = `
SELECT payments.create_order('m', 'order ' || $1, 'POST /v1/orders', sha256('a'), $1, 10, 'EUR',
    ARRAY[('tea', 1)]::payments.order_item[], 201, NULL, NULL);
SELECT payments.begin_charge('m', 'charge ' || $1, 'POST /v1/charges', sha256('a'), 'ch_' || $1, $1, 'alipay', '', 10, 'EUR');
SELECT payments.abandon_charge('m', 'charge ' || $1, guard_fence('charge ' || $1), 'ch_' || $1, 'timeout', NULL);
SELECT payments.begin_charge('m', 'charge ' || $1, 'POST /v1/charges', sha256('a'), 'ch_x', $1, 'alipay', '', 10, 'EUR');
SELECT payments.release_charge('m', 'charge ' || $1, guard_fence('charge ' || $1), 'ch_' || $1, 'away', NULL);
SELECT payments.begin_charge('m', 'charge ' || $1, 'POST /v1/charges', sha256('a'), 'ch2_' || $1, $1, 'alipay', '', 10, 'EUR');
SELECT payments.finish_charge('m', 'charge ' || $1, guard_fence('charge ' || $1), 'ch2_' || $1, 'succeeded', 't', NULL, NULL, NULL, 201, NULL, NULL);
SELECT payments.begin_charge('m', 'again ' || $1, 'POST /v1/charges', sha256('a'), 'ch3_' || $1, $1, 'stripe', '', 10, 'EUR');
SELECT payments.begin_refund('m', 'refund ' || $1, 'POST /v1/refunds', sha256('a'), $1, NULL, 're_' || $1, 4);
SELECT payments.abandon_refund('m', 'refund ' || $1, guard_fence('refund ' || $1), 're_' || $1, 'timeout', NULL);
SELECT payments.begin_refund('m', 'refund ' || $1, 'POST /v1/refunds', sha256('a'), $1, NULL, 're_x', 4);
SELECT payments.release_refund('m', 'refund ' || $1, guard_fence('refund ' || $1), 're_' || $1, 'away', NULL);
SELECT payments.begin_refund('m', 'refund ' || $1, 'POST /v1/refunds', sha256('a'), $1, 're_' || $1, NULL, 4);
SELECT payments.finish_refund('m', 'refund ' || $1, guard_fence('refund ' || $1), 're_' || $1, 'succeeded', 't', NULL, NULL, 201, NULL, NULL);
SELECT payments.apply_notification('alipay', 'refund event ' || $1, 'refund_partial', $1, 't', 10, 'EUR', 're2_' || $1, 3, NULL, NULL);
SELECT payments.apply_notification('alipay', 'closed event ' || $1, 'closed', $1, 't', 10, 'EUR', NULL, NULL, NULL, NULL);
SELECT payments.apply_notification('alipay', 'lost event ' || $1, 'paid', 'no ' || $1, 't', 10, 'EUR', NULL, NULL, NULL, NULL);
SELECT payments.begin_charge('m', 'due ' || $1, 'POST /v1/charges', sha256('a'), 'ch4_' || $1, 'due ' || $1, 'alipay', '', 10, 'EUR', '1 microsecond');
SELECT payments.claim_due_charge(ARRAY['alipay']);
SELECT payments.abandon_charge('m', 'due ' || $1, guard_fence('due ' || $1), 'ch4_' || $1, 'timeout', NULL);
SELECT payments.record_charge_inquiry('m', 'ch4_' || $1, 'unsent', NULL, NULL, NULL);
SELECT payments.begin_refund('m', 'due refund ' || $1, 'POST /v1/refunds', sha256('a'), $1, NULL, 're4_' || $1, 1, '1 microsecond');
SELECT payments.claim_due_refund(ARRAY['alipay']);
SELECT payments.record_refund_inquiry('m', 're4_' || $1, 'unsent', NULL, NULL, NULL);
SELECT payments.authenticate(sha256('key'));
SELECT payments.get_order('m', $1);
SELECT payments.get_charge('m', 'ch2_' || $1);
SELECT payments.outbox_delivered(e.entry_id) FROM payments.claim_outbox() AS e`

// Nothing that serves a request scans a table, however small, and so none keeps
// a plan that would.
func TestPaymentsNeverScan(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	owner := db.Conn(t)
	run(t, owner, `
		CREATE FUNCTION public.guard_fence(p_key text) RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
		BEGIN RETURN (SELECT k.fence FROM guard.idempotency_keys AS k WHERE k.scope = 'm' AND k.key = p_key); END $$;
		SELECT payments.set_stock('tea', 1000)`)
	session := explain(t, db, pgx.ReadCommitted)
	for round := range 7 {
		if round > 0 {
			run(t, owner, "ANALYZE")
		}
		order := fmt.Sprintf("'o%d'", round)
		for call := range strings.SplitSeq(strings.ReplaceAll(paymentCalls, "$1", order), ";\n") {
			for _, n := range session.plansOf(t, call) {
				require.NotEqual(t, "Seq Scan", n.Type, "%s: %s", n.Relation, call)
				require.Less(t, n.Cost, 1e9, "%s: %s", n.Type, call)
			}
		}
	}
	var answers string
	require.NoError(t, owner.QueryRow(t.Context(), `
		SELECT concat_ws(' ', (SELECT string_agg(DISTINCT status, ',') FROM payments.orders),
		                 (SELECT count(*) FROM payments.refunds WHERE status = 'succeeded'),
		                 (SELECT string_agg(DISTINCT kind, ',') FROM payments.cases),
		                 (SELECT count(*) FROM payments.outbox WHERE delivered_at IS NOT NULL))`).Scan(&answers))
	require.Equal(t, "partially_refunded,processing 14 unknown_order 21", answers, "the calls did what they are for")

	run(t, owner, "ALTER FUNCTION payments.get_order RESET enable_seqscan")
	var types []string
	for _, n := range explain(t, db, pgx.ReadCommitted).plansOf(t, "SELECT payments.get_order('m', 'o1')") {
		types = append(types, n.Type)
	}
	require.Contains(t, types, "Seq Scan", "a scan would be seen")
}
