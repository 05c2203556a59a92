package guardproof

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestQueryExecModes runs the suite in each way that pgx has to send a query.
func TestQueryExecModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			target := newTarget(t)
			target.App.DefaultQueryExecMode = mode
			Run(t, target)
		})
	}
}
