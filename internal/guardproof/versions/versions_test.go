// Package versions runs the guard's whole suite on each version of PostgreSQL
// that the guard supports. Its tests fail where a version is not installed.
package versions

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guardproof"
	"github.com/payonce/payonce/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestVersions asks each server for its version after it ran the suite, so
// that none of them can stand in for another.
func TestVersions(t *testing.T) {
	t.Parallel()
	for major, install := range map[int]string{
		15: "apt-get install postgresql-15",
		16: "scripts/fetch-postgres.sh",
		17: "scripts/fetch-postgres.sh",
		18: "scripts/fetch-postgres.sh",
	} {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			programs := programsOf(t, major)
			require.FileExists(t, filepath.Join(programs, "postgres"), "PostgreSQL %d is missing; run: %s", major, install)
			server := pgtest.Server(t, pgtest.WithBinDir(programs))
			// Run first: it makes copies of a database that nobody uses.
			t.Run("interleavings", func(t *testing.T) { guardproof.Interleave(t, targetOf(t, server.New(t))) })
			target := targetOf(t, server.New(t))
			t.Run("suite", func(t *testing.T) { guardproof.Run(t, target) })
			require.Equal(t, major, versionOf(t, target.Owner))
		})
	}
}

// programsOf is where scripts/fetch-postgres.sh puts a version, or Debian its own.
func programsOf(t *testing.T, major int) string {
	t.Helper()
	debian := filepath.Join("/usr/lib/postgresql", strconv.Itoa(major), "bin")
	if _, err := os.Stat(debian); err == nil || major == 15 {
		return debian
	}
	fetched := os.Getenv("PAYONCE_POSTGRES_DIR")
	switch {
	case fetched != "":
	case os.Geteuid() == 0:
		fetched = "/var/cache/payonce/postgres"
	default:
		cache, err := os.UserCacheDir()
		require.NoError(t, err)
		fetched = filepath.Join(cache, "payonce/postgres")
	}
	return filepath.Join(fetched, strconv.Itoa(major), "bin")
}

func targetOf(t *testing.T, db *pgtest.DB) guardproof.Target {
	t.Helper()
	owner, err := pgx.ParseConfig(db.URL)
	require.NoError(t, err)
	app, err := pgx.ParseConfig(db.AppURL)
	require.NoError(t, err)
	return guardproof.Target{App: app, Owner: owner}
}

func versionOf(t *testing.T, config *pgx.ConnConfig) int {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	var number int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int / 10000`).Scan(&number))
	return number
}
