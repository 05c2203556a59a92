package guardproof

import (
	"flag"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	parallel, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{
		// A failure is named by its seed; seeded bugs fail on purpose and need
		// not be minimized for long.
		"rapid.nofailfile": "true", "rapid.shrinktime": "100ms",
		// More at once could ask the server for more connections than it has.
		"test.parallel": strconv.Itoa(min(parallel, 4)),
	} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	pgtest.Main(m)
}

// newTarget makes a database with the guard for one test.
func newTarget(t *testing.T) Target {
	t.Helper()
	return targetOf(t, pgtest.New(t))
}

func targetOf(t *testing.T, db *pgtest.DB) Target {
	t.Helper()
	owner, err := pgx.ParseConfig(db.URL)
	require.NoError(t, err)
	app, err := pgx.ParseConfig(db.AppURL)
	require.NoError(t, err)
	return Target{App: app, Owner: owner}
}
