package doctor

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/cluster"
	"github.com/payonce/payonce/internal/pgtest"
)

// A primary with two real standbys, in each arrangement that matters.
func TestStandbys(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgtest.Durable(), pgtest.WithSetting("shared_preload_libraries", ""))
	primary := server.New(t).Conn(t)
	unattached := codes(t, primary)
	require.Equal(t, []Code{PgCronAbsent}, unattached)

	one := startStandby(t, server, primary, "one")
	require.Equal(t, []Code{StandbyAsynchronous, PgCronAbsent}, codes(t, primary))
	onStandby := codes(t, one)
	require.Contains(t, onStandby, OnStandby)
	require.NotContains(t, onStandby, CheckFailed)
	app := again(t, primary, "payonce_test_app")
	require.Equal(t, []Code{StandbysHidden, PgCronAbsent}, codes(t, app))

	synchronous := func(names string, states ...string) {
		t.Helper()
		set(t, primary, "synchronous_standby_names", names)
		require.Eventually(t, func() bool {
			rows, err := primary.Query(t.Context(), `SELECT sync_state FROM pg_stat_replication ORDER BY application_name`)
			if err != nil {
				return false
			}
			now, err := pgx.CollectRows(rows, pgx.RowTo[string])
			return err == nil && fmt.Sprint(now) == fmt.Sprint(states)
		}, 20*time.Second, 20*time.Millisecond)
	}
	synchronous("one", "sync")
	require.Equal(t, []Code{PgCronAbsent}, codes(t, primary))

	for _, value := range []string{"local", "remote_write"} {
		run(t, primary, here(`ALTER DATABASE %I SET synchronous_commit = `+value))
		require.Equal(t, []Code{CommitNotReplicated, PgCronAbsent}, codes(t, again(t, primary, "")))
	}
	run(t, primary, here(`ALTER DATABASE %I RESET synchronous_commit`))

	startStandby(t, server, primary, "two")
	synchronous("one", "sync", "async")
	require.Equal(t, []Code{StandbyAsynchronous, PgCronAbsent}, codes(t, primary))
	synchronous("FIRST 1 (one, two)", "sync", "potential")
	require.Equal(t, []Code{StandbyAsynchronous, PgCronAbsent}, codes(t, primary))
	synchronous("FIRST 2 (one, two)", "sync", "sync")
	require.Equal(t, []Code{PgCronAbsent}, codes(t, primary))
	synchronous("ANY 1 (one, two)", "quorum", "quorum")
	require.Equal(t, []Code{StandbyQuorum, PgCronAbsent}, codes(t, primary))
	synchronous("ANY 2 (one, two)", "quorum", "quorum")
	require.Equal(t, []Code{PgCronAbsent}, codes(t, primary))
	synchronous("three", "async", "async")
	require.Equal(t, []Code{StandbyAsynchronous, StandbyAsynchronous, StandbyMissing, PgCronAbsent}, codes(t, primary))
	// Commits wait for a standby that is not there, the dropping of this test's
	// database too.
	synchronous("", "async", "async")
}

// startStandby makes a streaming standby of a server and connects to the same
// database of it.
func startStandby(t *testing.T, server *pgtest.Instance, primary *pgx.Conn, name string) *pgx.Conn {
	t.Helper()
	dir, err := os.MkdirTemp("", "payonce-standby-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) // PostgreSQL's account has to pass through
	standby, err := server.Replicate(t.Context(), name, "", cluster.Options{
		DataDir:  dir,
		Settings: map[string]string{"max_connections": "300", "shared_preload_libraries": ""},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = standby.Stop(context.WithoutCancel(t.Context())) })

	config, err := pgx.ParseConfig(standby.URL())
	require.NoError(t, err)
	config.Database = primary.Config().Database
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	require.Eventually(t, func() bool {
		var streaming bool
		err := primary.QueryRow(t.Context(), `
			SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming')`, name).Scan(&streaming)
		return err == nil && streaming
	}, 30*time.Second, 20*time.Millisecond, "the standby does not stream")
	return conn
}
