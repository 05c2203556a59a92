package guard_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// explained is a connection whose every plan, nested ones included, is kept.
type explained struct {
	*pgx.Conn
	mu    sync.Mutex
	plans []string
}

func explain(t *testing.T, url string) *explained {
	t.Helper()
	e := &explained{}
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if strings.Contains(notice.Message, "plan:") {
			e.plans = append(e.plans, notice.Message)
		}
	}
	e.Conn, err = pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close(t.Context()) })
	_, err = e.Exec(t.Context(), `LOAD 'auto_explain';
		SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
		SET auto_explain.log_level = notice; SET client_min_messages = notice`)
	require.NoError(t, err)
	return e
}

// scans lists how the key table was read by what ran since the last call.
func (e *explained) scans() (probes, others []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, plan := range e.plans {
		for line := range strings.SplitSeq(plan, "\n") {
			line = strings.TrimSpace(line)
			switch {
			case strings.Contains(line, "Index") && strings.Contains(line, "idempotency_keys_pkey"):
				probes = append(probes, line)
			case strings.Contains(line, "Bitmap Heap Scan"):
				// Reads what the bitmap index scan below it found.
			case strings.Contains(line, "Scan") && strings.Contains(line, "idempotency_keys"):
				others = append(others, line)
			}
		}
	}
	e.plans = nil
	return probes, others
}

const fenceOf = `(SELECT k.fence FROM guard.idempotency_keys AS k WHERE k.scope = 'm' AND k.key = 'k')`

// Every hot function reads the key table through its primary key only, at any
// size, analyzed or not.
func TestPlansAreKeyProbes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10, 200_000} {
		for _, analyzed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d rows, analyzed %v", size, analyzed), func(t *testing.T) {
				t.Parallel()
				db := pgtest.New(t)
				e := explain(t, db.URL)
				fill(t, e.Conn, size)
				if analyzed {
					_, err := e.Exec(t.Context(), "ANALYZE guard.idempotency_keys")
					require.NoError(t, err)
				}
				calls := []string{
					`SELECT guard.claim('m', 'k', 'POST /x', sha256('a'))`,
					`SELECT guard.claim('m', 'k', 'POST /x', sha256('a'))`,
					`SELECT guard.claim('m', 'k', 'POST /x', sha256('b'))`,
					`SELECT guard.is_held('m', 'k')`,
					`SELECT * FROM guard.inspect('m', 'k')`,
					`SELECT guard.hold('m', 'k', %s)`,
					`SELECT guard.extend('m', 'k', %s, interval '1 minute')`,
					`SELECT guard.abandon('m', 'k', %s)`,
					`SELECT guard.claim('m', 'k', 'POST /x', sha256('a'))`,
					`SELECT guard.complete('m', 'k', %s, 200, NULL, NULL)`,
					`SELECT guard.complete('m', 'k', 0, 200, NULL, NULL)`,
					`SELECT guard.claim('m', 'k', 'POST /x', sha256('a'))`,
					`SELECT guard.release('m', 'k', %s)`,
				}
				for _, call := range calls {
					if strings.Contains(call, "%s") {
						var fence int64
						require.NoError(t, e.QueryRow(t.Context(), "SELECT "+fenceOf).Scan(&fence))
						e.scans()
						call = fmt.Sprintf(call, fmt.Sprint(fence))
					}
					// Often enough for PL/pgSQL to settle on a cached plan.
					for range 7 {
						e.scans()
						_, err := e.Exec(t.Context(), call)
						require.NoError(t, err, call)
						probes, others := e.scans()
						require.Empty(t, others, call)
						require.NotEmpty(t, probes, call)
					}
				}
			})
		}
	}
}

func fill(t *testing.T, conn *pgx.Conn, rows int) {
	t.Helper()
	_, err := conn.Exec(t.Context(), `INSERT INTO guard.idempotency_keys
		(scope, key, request_path, request_hash, fence, locked_at, lease_until, created_at, expires_at)
		SELECT 'm', 'old-' || n, 'POST /x', sha256('a'), 1, now(), now(), now(), now() + interval '1 day'
		  FROM generate_series(1, $1::int) AS n`, rows)
	require.NoError(t, err)
}

// The assertion can fail: without the setting, a small table is scanned.
func TestPlanCheckSeesScans(t *testing.T) {
	t.Parallel()
	e := explain(t, pgtest.New(t).URL)
	fill(t, e.Conn, 10)
	for _, sql := range []string{
		"ANALYZE guard.idempotency_keys",
		"ALTER FUNCTION guard.claim RESET enable_seqscan",
		"SELECT guard.claim('m', 'old-1', 'POST /x', sha256('b'))",
	} {
		e.scans()
		_, err := e.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	_, others := e.scans()
	require.NotEmpty(t, others)
}
