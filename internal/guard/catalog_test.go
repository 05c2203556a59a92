package guard_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// rows collects the text of a one-column query.
func rows(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	result, err := conn.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	found, err := pgx.CollectRows(result, pgx.RowTo[string])
	require.NoError(t, err)
	return found
}

const ours = `SELECT p.oid, p.prokind, p.prosecdef, p.proconfig, p.proacl, p.proargnames, n.nspname, p.proname
  FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
 WHERE n.nspname IN ('guard', 'payments')`

// Whatever function is added: it runs as its owner with a pinned search_path
// that ends in pg_temp. A procedure that commits can do neither.
func TestFunctionsArePinned(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	const loose = `SELECT o.oid::pg_catalog.regprocedure::text FROM (` + ours + `) AS o
	 WHERE NOT o.prosecdef
	    OR NOT EXISTS (SELECT FROM pg_catalog.unnest(o.proconfig) AS c WHERE c ~ '^search_path=.*pg_temp"?$')
	 ORDER BY 1`
	_, err := conn.Exec(t.Context(), "SET search_path = pg_catalog")
	require.NoError(t, err)
	require.Equal(t, []string{"guard.purge(integer,integer,interval)"}, rows(t, conn, loose))

	// The check can fail.
	for _, sql := range []string{
		"CREATE FUNCTION guard.loose() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"CREATE OR REPLACE FUNCTION guard.loose() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
		"CREATE OR REPLACE FUNCTION guard.loose() RETURNS int LANGUAGE sql SECURITY DEFINER SET search_path = pg_temp, pg_catalog AS 'SELECT 1'",
	} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
		require.Contains(t, rows(t, conn, loose), "guard.loose()", sql)
	}
}

// PUBLIC may do nothing, payonce_app may execute functions and touch no table.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	_, err := conn.Exec(t.Context(), "SET search_path = pg_catalog")
	require.NoError(t, err)
	const public = `SELECT o.oid::regprocedure::text FROM (` + ours + `) AS o
	 CROSS JOIN LATERAL aclexplode(coalesce(o.proacl, acldefault('f', (SELECT proowner FROM pg_proc WHERE oid = o.oid)))) AS a
	 WHERE a.grantee = 0`
	require.Empty(t, rows(t, conn, public))
	const tables = `SELECT c.oid::regclass::text || ' ' || p FROM pg_class AS c
	  JOIN pg_namespace AS n ON n.oid = c.relnamespace,
	       unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p
	 WHERE n.nspname IN ('guard', 'payments') AND c.relkind IN ('r', 'v', 'm', 'p')
	   AND (has_table_privilege('payonce_app', c.oid, p) OR has_table_privilege('public', c.oid, p))`
	require.Empty(t, rows(t, conn, tables))
	const schemas = `SELECT n.nspname::text FROM pg_namespace AS n
	 WHERE n.nspname IN ('guard', 'payments') AND (has_schema_privilege('public', n.oid, 'USAGE')
	    OR has_schema_privilege('payonce_app', n.oid, 'CREATE') OR NOT has_schema_privilege('payonce_app', n.oid, 'USAGE'))`
	require.Empty(t, rows(t, conn, schemas))

	app := db.AppConn(t)
	for _, sql := range []string{
		"SELECT 1 FROM guard.idempotency_keys", "DELETE FROM guard.idempotency_keys", "SELECT 1 FROM payments.orders",
		"SELECT guard.schedule_purge()", "SELECT guard.distribute()", "SELECT payments.set_stock('tea', 1)",
		`SELECT payments.create_api_key('\x00', 'm')`, "SELECT guard.retry_after_ms('1 s')",
	} {
		_, err := app.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "42501", sql)
	}

	// The check can fail.
	_, err = conn.Exec(t.Context(), `GRANT SELECT ON guard.idempotency_keys TO payonce_app;
		CREATE FUNCTION guard.open() RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	require.NoError(t, err)
	require.Equal(t, []string{"guard.idempotency_keys SELECT"}, rows(t, conn, tables))
	require.Equal(t, []string{"guard.open()"}, rows(t, conn, public))
}

// \df+ and \d+ in psql are the manual.
func TestEverythingHasAComment(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	_, err := conn.Exec(t.Context(), "SET search_path = pg_catalog")
	require.NoError(t, err)
	const missing = `SELECT o.oid::regprocedure::text FROM (` + ours + `) AS o WHERE obj_description(o.oid, 'pg_proc') IS NULL
	UNION ALL
	SELECT c.oid::regclass::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
	 WHERE n.nspname IN ('guard', 'payments') AND c.relkind IN ('r', 'p') AND obj_description(c.oid, 'pg_class') IS NULL
	UNION ALL
	SELECT y.oid::regtype::text FROM pg_type AS y JOIN pg_class AS c ON c.oid = y.typrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
	 WHERE n.nspname IN ('guard', 'payments') AND c.relkind = 'c' AND obj_description(y.oid, 'pg_type') IS NULL
	UNION ALL
	SELECT c.oid::regclass::text || '.' || a.attname FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
	  JOIN pg_namespace AS n ON n.oid = c.relnamespace
	 WHERE n.nspname IN ('guard', 'payments') AND c.relkind IN ('r', 'p', 'c') AND a.attnum > 0 AND NOT a.attisdropped
	   AND col_description(c.oid, a.attnum) IS NULL
	ORDER BY 1`
	require.Empty(t, rows(t, conn, missing))
	_, err = conn.Exec(t.Context(), "COMMENT ON COLUMN guard.result.fence IS NULL")
	require.NoError(t, err)
	require.Equal(t, []string{"guard.result.fence"}, rows(t, conn, missing))
}

// One function a file, named after it; parameters and variables show what they are.
func TestFilesAndNames(t *testing.T) {
	t.Parallel()
	created := regexp.MustCompile(`(?m)^CREATE OR REPLACE (?:FUNCTION|PROCEDURE) (\w+)\.(\w+)\(`)
	declared := regexp.MustCompile(`(?s)DECLARE(.*?)\nBEGIN`)
	variable := regexp.MustCompile(`(?m)^    (\w+) +`)
	notFunctions := map[string]bool{"install.sql": true, "grants.sql": true}
	for path, text := range sources(t, "") {
		folder, file := filepath.Base(filepath.Dir(path)), filepath.Base(path)
		if notFunctions[file] {
			continue
		}
		made := created.FindAllStringSubmatch(text, -1)
		require.Len(t, made, 1, "%s must make one function", path)
		require.Equal(t, folder, made[0][1], path)
		require.Equal(t, strings.TrimSuffix(file, ".sql"), made[0][2], path)
		for _, block := range declared.FindAllStringSubmatch(text, -1) {
			for _, name := range variable.FindAllStringSubmatch(block[1], -1) {
				require.Regexp(t, `^[vc]_`, name[1], "%s: variables begin with v_, constants with c_", path)
			}
		}
	}
	conn := pgtest.New(t).Conn(t)
	const parameters = `SELECT o.nspname || '.' || o.proname || ' ' || a.name
	  FROM (SELECT * FROM (` + ours + `) AS o WHERE o.proargnames IS NOT NULL) AS o
	  JOIN pg_catalog.pg_proc AS p ON p.oid OPERATOR(pg_catalog.=) o.oid,
	       ROWS FROM (pg_catalog.unnest(p.proargnames), pg_catalog.unnest(coalesce(p.proargmodes,
	           pg_catalog.array_fill('i'::"char", ARRAY[pg_catalog.cardinality(p.proargnames)])))) AS a (name, mode)
	 WHERE a.mode IN ('i', 'b', 'v') AND a.name !~ '^p_'`
	_, err := conn.Exec(t.Context(), "SET search_path = pg_catalog")
	require.NoError(t, err)
	require.Empty(t, rows(t, conn, parameters))
	_, err = os.Stat("../../sql/install.sql")
	require.NoError(t, err)
}

func TestNoIndexDuplicatesThePrimaryKey(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	require.Equal(t, []string{"idempotency_keys_pkey"}, rows(t, conn, `SELECT c.relname::text FROM pg_catalog.pg_index AS i
	  JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid
	 WHERE i.indrelid OPERATOR(pg_catalog.=) 'guard.idempotency_keys'::pg_catalog.regclass`))
}

// plpgsql_check reads every function as a compiler would.
func TestPLpgSQLCheck(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	for _, sql := range []string{"SET search_path = public, pg_catalog", "CREATE EXTENSION plpgsql_check", "CREATE EXTENSION IF NOT EXISTS pgtap"} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	const check = `SELECT o.oid::regprocedure::text || ' line ' || coalesce(c.lineno, 0) || ': ' || c.message
	     || coalesce(' (' || c.detail || ')', '')
	  FROM (` + ours + `) AS o
	  LEFT JOIN pg_trigger AS g ON g.tgfoid = o.oid
	 CROSS JOIN LATERAL plpgsql_check_function_tb(o.oid, coalesce(g.tgrelid, 0), fatal_errors => false, all_warnings => true) AS c
	 WHERE o.nspname || '.' || o.proname <> ALL ($1)`
	// Their dynamic statements name tables of extensions that are not here; their
	// own tests run them where the extensions, or stand-ins, are.
	elsewhere := []string{"guard.schedule_purge", "guard.unschedule_purge", "guard.purge_job", "guard.distribute"}
	require.Empty(t, rows(t, conn, check, elsewhere))
	_, err := conn.Exec(t.Context(), `CREATE FUNCTION guard.sloppy() RETURNS int LANGUAGE plpgsql AS
		$$ DECLARE v_unused int; BEGIN RETURN missing FROM guard.idempotency_keys; END $$`)
	require.NoError(t, err)
	require.NotEmpty(t, rows(t, conn, check, elsewhere))
}
