package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/migrations"
)

// purgeJob is the row of guard.purge_job().
type purgeJob struct {
	Extension   string
	Database    *string
	Schedule    *string
	Active      *bool
	LastStatus  *string
	LastMessage *string
	LastRunAt   *time.Time
	LogRows     *int64
}

func readPurgeJob(t *testing.T, conn *pgx.Conn) purgeJob {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT extension, database, schedule, active, last_status, last_message, last_run_at, log_rows
		  FROM guard.purge_job()`)
	require.NoError(t, err)
	job, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[purgeJob])
	require.NoError(t, err)
	return job
}

// FF-30: pg_cron's job is gone or failing, its run log grows.
func TestFF30_PgCronHere(t *testing.T) {
	t.Parallel()
	super, owner := cronDatabase(t)

	t.Run("not created", func(t *testing.T) {
		_, err := schedule(t, owner, "0 3 * * *")
		requireSQLState(t, err, guard.PgCronMissing, "CREATE EXTENSION pg_cron")
		// An owner that may not read pg_cron's settings learns less.
		require.Equal(t, purgeJob{Extension: "elsewhere"}, readPurgeJob(t, owner))
		run(t, super, "GRANT pg_read_all_settings TO guard_owner")
		_, err = schedule(t, owner, "0 3 * * *")
		requireSQLState(t, err, guard.PgCronMissing, "Run here, as a superuser: CREATE EXTENSION pg_cron;")
		database := "postgres"
		require.Equal(t, purgeJob{Extension: "not_created", Database: &database}, readPurgeJob(t, owner))
		require.False(t, unschedule(t, owner))
	})
	run(t, super, "CREATE EXTENSION pg_cron")

	t.Run("the owner lacks rights", func(t *testing.T) {
		_, err := schedule(t, owner, "0 3 * * *")
		requireSQLState(t, err, "42501", "GRANT USAGE ON SCHEMA cron TO guard_owner;")
		require.False(t, unschedule(t, owner))
		require.Nil(t, readPurgeJob(t, owner).Schedule)

		run(t, super, "GRANT USAGE ON SCHEMA cron TO guard_owner")
		run(t, super, "ALTER ROLE guard_owner NOLOGIN")
		_, err = schedule(t, owner, "0 3 * * *")
		requireSQLState(t, err, "42501", "ALTER ROLE guard_owner LOGIN;")
		run(t, super, "ALTER ROLE guard_owner LOGIN")
	})

	t.Run("bad schedules", func(t *testing.T) {
		for _, empty := range []any{nil, ""} {
			_, err := schedule(t, owner, empty)
			requireSQLState(t, err, guard.InvalidPurge, "")
		}
		_, err := schedule(t, owner, "not a schedule")
		require.Error(t, err)
		require.Nil(t, readPurgeJob(t, owner).Schedule, "all or nothing")
	})

	t.Run("every night by default", func(t *testing.T) {
		run(t, owner, "SELECT guard.schedule_purge()")
		job := readPurgeJob(t, owner)
		require.Equal(t, "0 3 * * *", *job.Schedule)
		require.True(t, *job.Active)
		require.Nil(t, job.LastStatus)
	})

	t.Run("again changes the schedule", func(t *testing.T) {
		first, err := schedule(t, super, "* * * * *")
		require.NoError(t, err)
		second, err := schedule(t, owner, "* * * * *")
		require.NoError(t, err)
		require.Equal(t, first, second)

		run(t, super, "SELECT cron.alter_job(jobid, active => false) FROM cron.job")
		require.False(t, *readPurgeJob(t, owner).Active)
		_, err = schedule(t, owner, "*/5 * * * *")
		require.NoError(t, err)
		require.True(t, *readPurgeJob(t, owner).Active)

		var jobs, owners int
		require.NoError(t, super.QueryRow(t.Context(),
			"SELECT count(*), count(*) FILTER (WHERE username = 'guard_owner') FROM cron.job").Scan(&jobs, &owners))
		require.Equal(t, 2, jobs, "the purge and the trimming of its log")
		require.Equal(t, 2, owners, "jobs never run as whoever scheduled them")
	})

	t.Run("a failing job is told", func(t *testing.T) {
		run(t, super, `
			INSERT INTO cron.job_run_details (jobid, status, return_message, database, username, start_time)
			SELECT j.jobid, s.status, s.status || ' message', j.database, j.username, now()
			  FROM cron.job AS j, (VALUES (1, 'succeeded'), (2, 'failed'), (3, 'running')) AS s (place, status)
			 WHERE j.jobname = 'payonce-purge'
			 ORDER BY s.place`)
		job := readPurgeJob(t, owner)
		require.Equal(t, "failed", *job.LastStatus, "of the newest run that is over")
		require.Equal(t, "failed message", *job.LastMessage)
		require.EqualValues(t, 3, *job.LogRows)
	})

	t.Run("gone", func(t *testing.T) {
		require.True(t, unschedule(t, owner))
		require.False(t, unschedule(t, owner))
		job := readPurgeJob(t, owner)
		require.Equal(t, "here", job.Extension)
		require.Nil(t, job.Schedule)
		var left int
		require.NoError(t, super.QueryRow(t.Context(),
			"SELECT (SELECT count(*) FROM cron.job) + (SELECT count(*) FROM cron.job_run_details)").Scan(&left))
		require.Zero(t, left)
	})
}

// FF-30, with pg_cron in another database: what the hint says to run there.
// The jobs then really run, once.
func TestFF30_PgCronRuns(t *testing.T) {
	t.Parallel()
	super, owner := cronDatabase(t)
	run(t, super, "CREATE EXTENSION pg_cron")
	run(t, super, "GRANT USAGE ON SCHEMA cron TO guard_owner")
	elsewhere := secondDatabase(t, super)
	for _, conn := range []*pgx.Conn{owner, elsewhere} {
		expireOneKey(t, conn)
	}

	_, err := schedule(t, owner, "* * * * *")
	require.NoError(t, err)
	_, err = schedule(t, elsewhere, "* * * * *")
	requireSQLState(t, err, guard.PgCronMissing, "")
	for _, statement := range statements(t, err) {
		run(t, super, statement)
	}
	oldRuns(t, super)
	run(t, super, "SELECT cron.alter_job(jobid, schedule => '* * * * *') FROM cron.job WHERE jobname = 'payonce-purge-log'")

	run(t, super, `
		LISTEN finished;
		CREATE FUNCTION public.tell() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
		    PERFORM pg_notify('finished', concat_ws(' ', NEW.database, NEW.status, left(NEW.command, 11),
		        CASE WHEN NEW.status = 'failed' THEN NEW.return_message END));
		    RETURN NULL;
		END $$;
		CREATE TRIGGER tell AFTER UPDATE ON cron.job_run_details FOR EACH ROW
		    WHEN (NEW.status IN ('succeeded', 'failed')) EXECUTE FUNCTION public.tell()`)
	waitFor(t, super,
		"postgres succeeded CALL guard.", "elsewhere succeeded CALL guard.", "postgres succeeded DELETE FROM")

	for _, conn := range []*pgx.Conn{owner, elsewhere} {
		var keys int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT total FROM guard.stats()").Scan(&keys))
		require.Zero(t, keys, "purged")
	}
	job := readPurgeJob(t, owner)
	require.Equal(t, "succeeded", *job.LastStatus)
	require.NotNil(t, job.LastRunAt)

	var old string
	require.NoError(t, super.QueryRow(t.Context(), `
		SELECT coalesce(string_agg(return_message, ', ' ORDER BY return_message), '')
		  FROM cron.job_run_details WHERE return_message LIKE 'old%'`).Scan(&old))
	require.Equal(t, "old run of another job", old, "the log is trimmed, and nobody else's")

	require.Equal(t, "elsewhere", readPurgeJob(t, elsewhere).Extension)
	_, err = elsewhere.Exec(t.Context(), "SELECT guard.unschedule_purge()")
	requireSQLState(t, err, guard.PgCronMissing, "")
	for _, statement := range statements(t, err) {
		run(t, super, statement)
	}
	var left string
	require.NoError(t, super.QueryRow(t.Context(), `
		SELECT string_agg(jobname, ' ' ORDER BY jobname) FROM cron.job WHERE command LIKE 'CALL guard.purge%'`).Scan(&left))
	require.Equal(t, "payonce-purge", left)
}

// FF-30: without pg_cron nothing is scheduled, and the guard says what is so.
func TestFF30_PgCronMissing(t *testing.T) {
	t.Parallel()
	conn := pgtest.Server(t, pgtest.WithSetting("shared_preload_libraries", "")).New(t).Conn(t)
	_, err := schedule(t, conn, "0 3 * * *")
	requireSQLState(t, err, guard.PgCronMissing, "shared_preload_libraries")
	require.False(t, unschedule(t, conn))
	require.Equal(t, purgeJob{Extension: "not_loaded"}, readPurgeJob(t, conn))
}

// cronDatabase is the database of pg_cron on a server of its own, with the
// guard in it, owned by the plain role guard_owner.
func cronDatabase(t *testing.T) (super, owner *pgx.Conn) {
	t.Helper()
	server := pgtest.Server(t)
	super, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = super.Close(context.WithoutCancel(t.Context())) })
	run(t, super, "CREATE ROLE guard_owner LOGIN PASSWORD 'guard_owner'")
	return super, ownedGuard(t, super)
}

func secondDatabase(t *testing.T, super *pgx.Conn) *pgx.Conn {
	t.Helper()
	run(t, super, "CREATE DATABASE elsewhere")
	config := super.Config()
	config.Database = "elsewhere"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return ownedGuard(t, conn)
}

// ownedGuard installs the guard in a superuser's database as role guard_owner.
func ownedGuard(t *testing.T, super *pgx.Conn) *pgx.Conn {
	t.Helper()
	run(t, super, "GRANT CREATE ON DATABASE "+super.Config().Database+" TO guard_owner; GRANT CREATE ON SCHEMA public TO guard_owner")
	config := super.Config()
	config.User, config.Password = "guard_owner", "guard_owner"
	owner, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = owner.Close(context.WithoutCancel(t.Context())) })
	require.NoError(t, migrations.Apply(t.Context(), owner))
	return owner
}

func expireOneKey(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	run(t, conn, `
		SELECT guard.complete(p_scope => 's', p_key => 'k', p_fence => c.fence, p_status => 200, p_headers => NULL, p_body => NULL)
		  FROM guard.claim(p_scope => 's', p_key => 'k', p_request_path => 'POST /p', p_request_hash => sha256('b'),
		                   p_lease => '1 microsecond', p_ttl => '1 microsecond') AS c`)
}

// oldRuns writes what a long life leaves in pg_cron's run log.
func oldRuns(t *testing.T, super *pgx.Conn) {
	t.Helper()
	run(t, super, `
		SELECT setval('cron.runid_seq', 1000000);
		SELECT cron.schedule('another job', '0 0 1 1 *', 'SELECT 1');
		INSERT INTO cron.job_run_details (runid, jobid, username, status, return_message, start_time, end_time)
		SELECT r.runid, j.jobid, j.username, r.status, r.message, r.at, r.at
		  FROM cron.job AS j
		  JOIN (VALUES ('payonce-purge', 1, 'succeeded', 'old run', now() - interval '8 days'),
		               ('payonce-purge', 2, 'failed', 'old run without a time', NULL),
		               ('payonce-purge', 3, 'succeeded', 'recent run', now() - interval '6 days'),
		               ('payonce-purge-elsewhere', 4, 'succeeded', 'old run elsewhere', now() - interval '8 days'),
		               ('another job', 5, 'succeeded', 'old run of another job', now() - interval '8 days')
		       ) AS r (jobname, runid, status, message, at) ON r.jobname = j.jobname`)
}

// waitFor reads notifications until each of the wanted ones has come. A run
// starts within a minute.
func waitFor(t *testing.T, listener *pgx.Conn, wanted ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	missing := map[string]bool{}
	for _, want := range wanted {
		missing[want] = true
	}
	for len(missing) > 0 {
		heard, err := listener.WaitForNotification(ctx)
		require.NoError(t, err, "still waiting for %v", missing)
		require.NotContains(t, heard.Payload, "failed")
		delete(missing, heard.Payload)
	}
}

func schedule(t *testing.T, conn *pgx.Conn, when any) (job int64, err error) {
	t.Helper()
	err = conn.QueryRow(t.Context(), "SELECT guard.schedule_purge(p_schedule => $1)", when).Scan(&job)
	return job, err
}

func unschedule(t *testing.T, conn *pgx.Conn) (done bool) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT guard.unschedule_purge()").Scan(&done))
	return done
}

func requireSQLState(t *testing.T, err error, code, hint string) {
	t.Helper()
	var pgErr *pgconn.PgError
	require.True(t, errors.As(err, &pgErr), "%v", err)
	require.Equal(t, code, pgErr.Code, pgErr.Message)
	require.Contains(t, pgErr.Hint, hint)
}

// statements are the SQL statements that an error's hint holds, a line each.
func statements(t *testing.T, err error) []string {
	t.Helper()
	var pgErr *pgconn.PgError
	require.True(t, errors.As(err, &pgErr), "%v", err)
	introduction, rest, found := strings.Cut(pgErr.Hint, "\n")
	require.True(t, found)
	require.True(t, strings.HasSuffix(introduction, ", as a superuser:"), introduction)
	return strings.Split(rest, "\n")
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}
