package doctor

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// TestPooler connects through a real PgBouncer in transaction mode.
func TestPooler(t *testing.T) {
	t.Parallel()
	direct := pgtest.New(t).Conn(t)
	require.NotContains(t, codes(t, direct), Pooler)

	config := direct.Config().Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	pgtest.PgBouncer(t, config, "ignore_startup_parameters = search_path")
	pooled, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = pooled.Close(context.WithoutCancel(t.Context())) })
	found := codes(t, pooled)
	require.Contains(t, found, Pooler)
	require.NotContains(t, found, CheckFailed)
}
