package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// Where pg_cron cannot purge, the schema is there all the same, and the error
// says what to do. compose-check.sh looks at where it can.
func TestMigrateSchedulesThePurge(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	root := newRoot()
	var output strings.Builder
	root.SetOut(&output)
	root.SetArgs([]string{"migrate", "--schedule-purge", "--database-url", db.URL})
	err := root.ExecuteContext(t.Context())
	require.Contains(t, output.String(), "schema version ")
	require.ErrorContains(t, err, "schedule the purge: ")
	require.Regexp(t, `\n.*(schedule_in_database|cron\.database_name)`, err.Error(), "the hint")
}
