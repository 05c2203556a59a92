package guardproof

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// TestFF11_PgBouncer runs the suite through PgBouncer in transaction mode (FF-11),
// where each transaction may meet another server connection. Older PgBouncers,
// Debian 12's 1.18 among them, do not follow prepared statements there: pgx
// must then send none, hence the exec modes.
func TestFF11_PgBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			target := newTarget(t)
			target.App.DefaultQueryExecMode = mode
			pgtest.PgBouncer(t, target.App, strings.Join([]string{
				"default_pool_size = 60", "max_client_conn = 400", "server_reset_query =", "server_round_robin = 1",
			}, "\n"))
			require.True(t, changesBackends(t, target), "transactions of one client must meet several backends")
			Run(t, target)
		})
	}
}

// changesBackends: with two server connections in the pool, taken in turn, two
// transactions of one client meet both.
func changesBackends(t *testing.T, target Target) bool {
	t.Helper()
	d := newDesk(t, target)
	first, _ := d.begin(pgx.TxOptions{})
	second, _ := d.begin(pgx.TxOptions{})
	require.NoError(t, first.Rollback(t.Context()))
	require.NoError(t, second.Rollback(t.Context()))
	met := map[int32]bool{}
	for range 2 {
		var pid int32
		require.NoError(t, d.app.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
		met[pid] = true
	}
	return len(met) == 2
}
