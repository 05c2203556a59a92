package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// proof brings one kind of finding about. arrange returns the connection to
// examine afterwards, or nil for the same one.
type proof struct {
	code    Code
	arrange func(t *testing.T, conn *pgx.Conn) *pgx.Conn
}

func sql(text string) func(*testing.T, *pgx.Conn) *pgx.Conn {
	return func(t *testing.T, conn *pgx.Conn) *pgx.Conn {
		t.Helper()
		run(t, conn, text)
		return nil
	}
}

func run(t *testing.T, conn *pgx.Conn, text string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), text)
	require.NoError(t, err)
}

// again connects anew, so that settings of roles and databases apply, and with
// the user changed where one is given.
func again(t *testing.T, conn *pgx.Conn, user string) *pgx.Conn {
	t.Helper()
	config := conn.Config().Copy()
	if user != "" {
		config.User, config.Password = user, user
	}
	fresh, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = fresh.Close(context.WithoutCancel(t.Context())) })
	return fresh
}

// thenAnew runs text and examines over a new connection.
func thenAnew(text string) func(*testing.T, *pgx.Conn) *pgx.Conn {
	return func(t *testing.T, conn *pgx.Conn) *pgx.Conn {
		t.Helper()
		run(t, conn, text)
		return again(t, conn, "")
	}
}

// here names the database that is connected, for statements that take no
// expression.
func here(statement string) string {
	return `DO $do$ BEGIN EXECUTE format($f$` + statement + `$f$, current_database()); END $do$`
}

func codes(t *testing.T, conn *pgx.Conn) []Code {
	t.Helper()
	report, err := Examine(t.Context(), conn)
	require.NoError(t, err)
	found := []Code{}
	for _, finding := range report.Findings {
		require.NotEmpty(t, finding.What, finding.Code)
		found = append(found, finding.Code)
	}
	return found
}

// fires asserts that a finding comes with what is arranged and not before.
func (p proof) fires(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	require.NotContains(t, codes(t, conn), p.code)
	if changed := p.arrange(t, conn); changed != nil {
		conn = changed
	}
	require.Contains(t, codes(t, conn), p.code)
}

const (
	anOldKey = `
		SELECT guard.claim(p_scope => 'shop', p_key => 'old', p_request_path => 'POST /v1/charges',
		                   p_request_hash => pg_catalog.sha256('a'));`
	anOrder = `
		INSERT INTO payments.orders (order_id, merchant, amount, currency, status, created_at, updated_at)
		VALUES ('o', 'shop', 100, 'CNY', 'processing', now(), now());
		INSERT INTO payments.charges (charge_id, order_id, merchant, idempotency_key, fence, provider, method, amount,
		       currency, attempt, status, due_at, created_at, updated_at)
		VALUES ('c', 'o', 'shop', 'k', 1, 'alipay', '', 100, 'CNY', 1, 'in_doubt', now() + interval '1 hour', now(), now());`
)

// inAnyDatabase need nothing but a migrated database.
var inAnyDatabase = []proof{
	{CheckFailed, sql(`DROP FUNCTION guard.stats()`)},
	{ReadOnly, thenAnew(here(`ALTER DATABASE %I SET default_transaction_read_only = on`))},
	{SchemaMissing, sql(`DROP SCHEMA payments CASCADE; DROP SCHEMA guard CASCADE`)},
	{SchemaOld, sql(`UPDATE public.payonce_schema_version SET version = 1`)},
	{SchemaNew, sql(`UPDATE public.payonce_schema_version SET version = 1000`)},
	{SchemaHidden, func(t *testing.T, conn *pgx.Conn) *pgx.Conn {
		run(t, conn, `REVOKE ALL ON public.payonce_schema_version FROM PUBLIC, payonce_app`)
		return again(t, conn, "payonce_test_app")
	}},
	{GuardOld, sql(`CREATE OR REPLACE FUNCTION guard.version() RETURNS int LANGUAGE sql AS 'SELECT 0'`)},
	{GuardNew, sql(`CREATE OR REPLACE FUNCTION guard.version() RETURNS int LANGUAGE sql AS 'SELECT 1000'`)},
	{KeysUnlogged, sql(`ALTER TABLE guard.idempotency_keys SET UNLOGGED`)},
	{GrantsMissing, sql(`REVOKE EXECUTE ON FUNCTION guard.claim FROM payonce_app`)},
	{GrantsMissing, sql(`REVOKE USAGE ON SCHEMA guard FROM payonce_app`)},
	{GrantsMissing, sql(`DROP FUNCTION payments.begin_refund`)},
	{RoleWithoutGrants, func(t *testing.T, conn *pgx.Conn) *pgx.Conn {
		run(t, conn, `CREATE ROLE payonce_onlooker LOGIN PASSWORD 'payonce_onlooker'`)
		t.Cleanup(func() { _, _ = conn.Exec(context.WithoutCancel(t.Context()), `DROP ROLE payonce_onlooker`) })
		return again(t, conn, "payonce_onlooker")
	}},
	{GrantsTooWide, sql(`GRANT SELECT ON guard.idempotency_keys TO payonce_app`)},
	{GrantsTooWide, sql(`GRANT EXECUTE ON FUNCTION guard.claim TO PUBLIC`)},
	{PurgeLate, sql(anOldKey + `UPDATE guard.idempotency_keys SET response_status = 200, response_headers = '{}',
		response_body = '', completed_at = now(), expires_at = now() - interval '49 hours'`)},
	{KeysInDoubt, sql(anOldKey + `UPDATE guard.idempotency_keys SET lease_until = now() - interval '61 minutes'`)},
	{ChargesOverdue, sql(anOrder + `UPDATE payments.charges SET due_at = now() - interval '16 minutes'`)},
	{RefundsOverdue, sql(anOrder + `
		INSERT INTO payments.refunds (refund_id, order_id, charge_id, merchant, idempotency_key, fence, amount, currency,
		       status, due_at, created_at, updated_at)
		VALUES ('r', 'o', 'c', 'shop', 'k', 1, 10, 'CNY', 'in_doubt', now() - interval '16 minutes', now(), now())`)},
	{OutboxBacklog, sql(`
		INSERT INTO payments.outbox (order_id, kind, payload, created_at, due_at)
		VALUES ('o', 'order_confirmation', '{}', now() - interval '16 minutes', now())`)},
	{CasesOpen, sql(`
		INSERT INTO payments.cases (kind, order_id, detail, opened_at)
		VALUES ('unknown_order', 'o', '{}', now() - interval '1 second')`)},
}

// withPgCron need the database of pg_cron, with the purge scheduled.
var withPgCron = []proof{
	{PurgeJobInactive, sql(`SELECT cron.alter_job(jobid, active => false) FROM cron.job WHERE jobname = 'payonce-purge'`)},
	{PurgeJobFailing, sql(`
		INSERT INTO cron.job_run_details (jobid, status, return_message, database, username, start_time, end_time)
		SELECT jobid, 'failed', 'connection failed', database, username, now(), now()
		  FROM cron.job WHERE jobname = 'payonce-purge'`)},
	{PurgeJobMissing, sql(`SELECT guard.unschedule_purge()`)},
	{PgCronElsewhere, func(t *testing.T, conn *pgx.Conn) *pgx.Conn {
		run(t, conn, `CREATE DATABASE elsewhere`)
		config := conn.Config().Copy()
		config.Database = "elsewhere"
		other, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = other.Close(context.WithoutCancel(t.Context())) })
		require.NoError(t, migrations.Apply(t.Context(), other))
		return other
	}},
}

// ofTheServer are settings of a whole server, made by ALTER SYSTEM.
var ofTheServer = []proof{
	{FsyncOff, setting("fsync", "off")},
	{FullPageWritesOff, setting("full_page_writes", "off")},
	{CommitOff, setting("synchronous_commit", "off")},
	{CommitOff, thenAnew(here(`ALTER DATABASE %I SET synchronous_commit = OFF`))},
	{CommitOff, sql(`ALTER ROLE payonce_app SET synchronous_commit = off`)},
	{CommitOff, sql(here(`ALTER ROLE payonce_app IN DATABASE %I SET synchronous_commit = off`))},
}

func setting(name, value string) func(*testing.T, *pgx.Conn) *pgx.Conn {
	return func(t *testing.T, conn *pgx.Conn) *pgx.Conn {
		t.Helper()
		set(t, conn, name, value)
		t.Cleanup(func() {
			_, _ = conn.Exec(context.WithoutCancel(t.Context()), "ALTER SYSTEM RESET "+name+"; SELECT pg_reload_conf()")
		})
		return nil
	}
}

// set changes a setting of a server and waits until this session has it.
func set(t *testing.T, conn *pgx.Conn, name, value string) {
	t.Helper()
	run(t, conn, "ALTER SYSTEM SET "+name+" = '"+value+"'")
	run(t, conn, "SELECT pg_reload_conf()")
	require.Eventually(t, func() bool {
		var now string
		err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&now)
		return err == nil && now == value
	}, 20*time.Second, 10*time.Millisecond)
}

func TestFindingsOfADatabase(t *testing.T) {
	t.Parallel()
	for _, p := range inAnyDatabase {
		t.Run(string(p.code), func(t *testing.T) {
			t.Parallel()
			p.fires(t, pgtest.New(t).Conn(t))
		})
	}
}

// A server as it should be, with pg_cron's job in this database: nothing is
// found, before and after each proof.
func TestFindingsOfAServer(t *testing.T) {
	t.Parallel()
	conn := healthy(t)
	for _, p := range ofTheServer {
		t.Run(string(p.code), func(t *testing.T) {
			require.Empty(t, codes(t, conn))
			t.Cleanup(func() { makeHealthy(t, conn) })
			p.fires(t, conn)
		})
	}
	for _, p := range withPgCron {
		t.Run(string(p.code), func(t *testing.T) {
			require.Empty(t, codes(t, conn))
			t.Cleanup(func() { makeHealthy(t, conn) })
			p.fires(t, conn)
		})
	}
	report, err := Examine(t.Context(), conn)
	require.NoError(t, err)
	require.True(t, report.Healthy())
	require.Equal(t, len(checks()), report.Checks)
}

// healthy connects to a server that keeps what it commits, in pg_cron's
// database.
func healthy(t *testing.T, options ...pgtest.ServerOption) *pgx.Conn {
	t.Helper()
	server := pgtest.Server(t, append(options, pgtest.Durable())...)
	conn, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	require.NoError(t, migrations.Apply(t.Context(), conn))
	makeHealthy(t, conn)
	return conn
}

// makeHealthy takes back what a proof did.
func makeHealthy(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, statement := range []string{
		"ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()",
		here("ALTER DATABASE %I RESET ALL"), here("ALTER ROLE payonce_app IN DATABASE %I RESET ALL"), "ALTER ROLE payonce_app RESET ALL",
		"DROP DATABASE IF EXISTS elsewhere WITH (FORCE)",
		"CREATE EXTENSION IF NOT EXISTS pg_cron", "SELECT guard.unschedule_purge()", "SELECT guard.schedule_purge()",
	} {
		_, err := conn.Exec(ctx, statement)
		require.NoError(t, err, statement)
	}
	require.Eventually(t, func() bool {
		var changed int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_settings
			WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'`).Scan(&changed)
		return err == nil && changed == 0
	}, 20*time.Second, 10*time.Millisecond)
}

func TestPgCronAbsent(t *testing.T) {
	t.Parallel()
	none := pgtest.Server(t, pgtest.WithSetting("shared_preload_libraries", "")).New(t).Conn(t)
	require.Contains(t, codes(t, none), PgCronAbsent)

	conn, err := pgx.Connect(t.Context(), pgtest.Server(t).URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	require.NoError(t, migrations.Apply(t.Context(), conn))
	require.Contains(t, codes(t, conn), PgCronAbsent, "loaded, not created")
	run(t, conn, "CREATE EXTENSION pg_cron")
	require.NotContains(t, codes(t, conn), PgCronAbsent)
}

func TestWALLevel(t *testing.T) {
	t.Parallel()
	conn := pgtest.Server(t, pgtest.WithSetting("wal_level", "minimal"), pgtest.WithSetting("max_wal_senders", "0")).New(t).Conn(t)
	require.Contains(t, codes(t, conn), WALMinimal)
	require.NotContains(t, codes(t, pgtest.New(t).Conn(t)), WALMinimal)
}

func TestServerVersion(t *testing.T) {
	t.Parallel()
	require.Empty(t, judgeVersion(150000))
	require.Equal(t, ServerUnsupported, judgeVersion(140012)[0].Code)
}

func TestClock(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	for name, skewed := range map[string]bool{"0s": false, "2s": false, "-2s": false, "1m": true, "-1m": true} {
		shift, err := time.ParseDuration(name)
		require.NoError(t, err)
		found, err := clock(t.Context(), &patient{conn: conn, now: func() time.Time { return time.Now().Add(shift) }})
		require.NoError(t, err)
		require.Equal(t, skewed, len(found) == 1 && found[0].Code == ClockSkew, name)
	}
}

// The guard without the payments is a whole thing.
func TestTheGuardAloneIsFine(t *testing.T) {
	t.Parallel()
	conn := healthy(t)
	run(t, conn, "DROP SCHEMA payments CASCADE; DROP TABLE public.payonce_schema_version")
	require.Empty(t, codes(t, conn))
}

func TestAnswersThatDoNotComeAreAnError(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	require.NoError(t, conn.Close(t.Context()))
	_, err := Examine(t.Context(), conn)
	require.Error(t, err)
}

// provenElsewhere are the findings with a test of their own.
var provenElsewhere = map[Code]string{
	ServerUnsupported:    "TestServerVersion",
	WALMinimal:           "TestWALLevel",
	ClockSkew:            "TestClock",
	Pooler:               "TestPooler",
	ConnectionPlain:      "TestTransport",
	ConnectionUnverified: "TestTransport",
	PgCronAbsent:         "TestPgCronAbsent",
	CommitNotReplicated:  "TestStandbys",
	StandbyAsynchronous:  "TestStandbys",
	StandbyQuorum:        "TestStandbys",
	StandbyMissing:       "TestStandbys",
	StandbysHidden:       "TestStandbys",
	OnStandby:            "TestStandbys",
}

func TestEveryFindingIsProven(t *testing.T) {
	t.Parallel()
	proven := map[Code]bool{}
	for code := range provenElsewhere {
		proven[code] = true
	}
	for _, list := range [][]proof{inAnyDatabase, withPgCron, ofTheServer} {
		for _, p := range list {
			proven[p.code] = true
		}
	}
	for _, code := range Codes() {
		require.True(t, proven[code], code)
		delete(proven, code)
		e := catalogue[code]
		require.Contains(t, []Severity{Problem, Warning, Note}, e.severity, code)
		require.NotEmpty(t, e.why, code)
		require.NotEmpty(t, e.do, code)
	}
	require.Empty(t, proven)
}
