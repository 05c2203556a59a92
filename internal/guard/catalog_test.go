package guard_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// The tests of this file hold for every function, type, table and column that
// schemas guard and payments will ever have: what to check comes from the
// catalog, and an exception has its name and reason here.

const ourSchemas = "('guard'::regnamespace, 'payments'::regnamespace)"

// purge is a procedure that commits: PostgreSQL lets it be neither SECURITY
// DEFINER nor have settings of its own.
const purge = "guard.purge(integer,integer,interval,double precision)"

// rows collects the text of a one-column query.
func rows(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	result, err := conn.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	found, err := pgx.CollectRows(result, pgx.RowTo[string])
	require.NoError(t, err)
	return found
}

// looseFunctions do not run as their owner with a search_path that nobody else
// can put anything into, or change another setting.
const looseFunctions = `
SELECT p.oid::regprocedure::text
  FROM pg_proc AS p
 WHERE p.pronamespace IN ` + ourSchemas + `
   AND (p.prosecdef
        AND p.proconfig @> ARRAY['search_path=pg_catalog, pg_temp']
        AND p.proconfig <@ ARRAY['search_path=pg_catalog, pg_temp', 'enable_seqscan=off']) IS NOT TRUE
 ORDER BY 1`

func TestFunctionsArePinned(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	require.Equal(t, []string{purge}, rows(t, conn, looseFunctions))

	for _, loose := range []string{
		"",
		"SECURITY DEFINER",
		"SECURITY DEFINER SET search_path = pg_temp, pg_catalog",
		"SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp",
		"SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET work_mem = '1GB'",
		"SECURITY INVOKER SET search_path = pg_catalog, pg_temp",
	} {
		run(t, conn, "CREATE OR REPLACE FUNCTION guard.loose() RETURNS int LANGUAGE sql "+loose+" AS 'SELECT 1'")
		require.Contains(t, rows(t, conn, looseFunctions), "guard.loose()", loose)
	}
}

// scanningFunctions look for one key, or serve a request, and may keep a plan,
// made while a table was small, that scans all of it.
const scanningFunctions = `
SELECT p.oid::regprocedure::text
  FROM pg_proc AS p
 WHERE p.provolatile <> 'i'
   AND (p.pronamespace = 'guard'::regnamespace AND 'p_key' = ANY (p.proargnames)
        OR p.pronamespace = 'payments'::regnamespace AND has_function_privilege('payonce_app', p.oid, 'EXECUTE'))
   AND ('enable_seqscan=off' = ANY (p.proconfig)) IS NOT TRUE`

func TestFunctionsOfARequestNeverScan(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	require.Empty(t, rows(t, conn, scanningFunctions))
	run(t, conn, `
		ALTER FUNCTION guard.is_held RESET enable_seqscan;
		ALTER FUNCTION payments.get_order SET enable_seqscan = on`)
	require.ElementsMatch(t, []string{"guard.is_held(text,text)", "payments.get_order(text,text)"}, rows(t, conn, scanningFunctions))
}

// publicRights are what anybody may do. A null ACL means the built-in default,
// which for functions and types is everybody.
const publicRights = `
SELECT a.privilege_type || ' ' || o.name
  FROM (SELECT p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner))
          FROM pg_proc AS p WHERE p.pronamespace IN ` + ourSchemas + `
        UNION ALL
        SELECT c.oid::regclass::text,
               coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))
          FROM pg_class AS c WHERE c.relnamespace IN ` + ourSchemas + ` AND c.relkind <> 'c'
        UNION ALL
        SELECT c.oid::regclass::text || '.' || a.attname, a.attacl
          FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid WHERE c.relnamespace IN ` + ourSchemas + `
        UNION ALL
        SELECT y.oid::regtype::text, coalesce(y.typacl, acldefault('T', y.typowner))
          FROM pg_type AS y
          LEFT JOIN pg_class AS c ON c.oid = y.typrelid
         WHERE y.typnamespace IN ` + ourSchemas + ` AND y.typelem = 0 AND coalesce(c.relkind, 'c') = 'c'
        UNION ALL
        SELECT n.nspname::text, coalesce(n.nspacl, acldefault('n', n.nspowner))
          FROM pg_namespace AS n WHERE n.oid IN ` + ourSchemas + `
       ) AS o (name, acl)
 CROSS JOIN LATERAL aclexplode(o.acl) AS a
 WHERE a.grantee = 0
 ORDER BY 1`

// appTables are the tables, columns and sequences that payonce_app can touch.
const appTables = `
SELECT c.oid::regclass::text
  FROM pg_class AS c
 WHERE c.relnamespace IN ` + ourSchemas + `
   AND CASE WHEN c.relkind = 'S' THEN has_sequence_privilege('payonce_app', c.oid, 'USAGE, SELECT, UPDATE')
            WHEN c.relkind IN ('r', 'p', 'v', 'm', 'f') THEN
                has_table_privilege('payonce_app', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
                OR has_any_column_privilege('payonce_app', c.oid, 'SELECT, INSERT, UPDATE, REFERENCES')
       END`

// wrongRights are the functions that payonce_app may call and should not, or
// should be able to call and may not. Its functions are those that are neither
// internal nor an operator's.
const wrongRights = `
SELECT p.oid::regprocedure::text
  FROM pg_proc AS p
 WHERE p.pronamespace IN ` + ourSchemas + `
   AND has_function_privilege('payonce_app', p.oid, 'EXECUTE')
       <> (obj_description(p.oid, 'pg_proc') !~ '^(Internal|Trigger):'
           AND p.oid::regprocedure::text <> ALL ($1)
           OR p.oid::regprocedure::text = ANY ($2))`

var (
	forOperators = []string{
		"guard.schedule_purge(text)", "guard.unschedule_purge()", "guard.distribute()",
		"guard.operator_take(text,text,text,text,text,boolean,interval)",
		"guard.operator_list(text,text,text,interval,integer)", "guard.operator_history(text,text)",
		"payments.operator_take(text,text,text,text,text,boolean,interval)", "payments.order_story(text)",
		"payments.operator_order(text)", "payments.operator_orders_of(text,text)", "payments.operator_ask(text,text,text)",
		"payments.operator_in_doubt(integer)", "payments.operator_cases(integer)", "payments.operator_find(text,integer)",
		"payments.set_stock(text,bigint)", "payments.create_api_key(bytea,text,text)",
		"payments.list_api_keys(text)", "payments.revoke_api_key(text)",
	}
	// The procedure purge runs as its caller and calls these.
	calledByPurge = []string{"guard.purge_batch(integer,tid,tid,interval)", "guard.table_pages()"}
)

func TestPrivileges(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	require.Empty(t, rows(t, conn, publicRights))
	require.Empty(t, rows(t, conn, appTables))
	require.Empty(t, rows(t, conn, wrongRights, forOperators, calledByPurge))

	app := db.AppConn(t)
	for _, forbidden := range []string{
		"SELECT 1 FROM guard.idempotency_keys",
		"INSERT INTO guard.idempotency_keys (key) VALUES ('k')",
		"UPDATE guard.idempotency_keys SET fence = 1",
		"DELETE FROM guard.idempotency_keys",
		"TRUNCATE guard.idempotency_keys",
		"SELECT 1 FROM payments.orders",
		"SELECT nextval('payments.journal_entry_id_seq')",
		"SELECT guard.holder_row('s', 'k', 1)",
		"SELECT guard.schedule_purge()",
		"SELECT guard.distribute()",
		"SELECT payments.set_stock('tea', 1)",
		"SELECT payments.pay_order(NULL, NULL)",
		"CREATE TABLE guard.mine (i int)",
		"CREATE FUNCTION guard.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"DROP FUNCTION guard.version()",
		"ALTER FUNCTION guard.version() SECURITY INVOKER",
	} {
		_, err := app.Exec(t.Context(), forbidden)
		requireSQLState(t, err, "42501", "")
	}
}

func TestPrivilegesThatAreTooWideAreSeen(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	run(t, conn, `
		CREATE FUNCTION guard.open() RETURNS int LANGUAGE sql AS 'SELECT 1';
		CREATE TYPE payments.open AS (i int);
		GRANT USAGE ON SCHEMA guard TO PUBLIC;
		GRANT SELECT (key) ON guard.idempotency_keys TO payonce_app;
		GRANT UPDATE (key) ON guard.idempotency_keys TO PUBLIC;
		GRANT USAGE ON SEQUENCE payments.journal_entry_id_seq TO payonce_app;
		GRANT EXECUTE ON FUNCTION guard.holder_row, guard.distribute TO payonce_app;
		REVOKE EXECUTE ON FUNCTION guard.claim, guard.purge_batch FROM payonce_app;
		COMMENT ON FUNCTION guard.open() IS 'Internal: not for PUBLIC.'`)
	require.Equal(t, []string{
		"EXECUTE guard.open()", "UPDATE guard.idempotency_keys.key", "USAGE guard", "USAGE payments.open",
	}, rows(t, conn, publicRights))
	require.ElementsMatch(t, []string{"guard.idempotency_keys", "payments.journal_entry_id_seq"}, rows(t, conn, appTables))
	require.ElementsMatch(t, []string{
		"guard.claim(text,text,text,bytea,interval,interval)",
		"guard.distribute()",
		"guard.holder_row(text,text,bigint)",
		"guard.open()",
		"guard.purge_batch(integer,tid,tid,interval)",
	}, rows(t, conn, wrongRights, forOperators, calledByPurge))
}

// uncommented: \dn+, \df+, \dT+ and \d+ in psql are the manual.
const uncommented = `
SELECT n.nspname::text FROM pg_namespace AS n
 WHERE n.oid IN ` + ourSchemas + ` AND obj_description(n.oid, 'pg_namespace') IS NULL
UNION ALL
SELECT p.oid::regprocedure::text FROM pg_proc AS p
 WHERE p.pronamespace IN ` + ourSchemas + ` AND obj_description(p.oid, 'pg_proc') IS NULL
UNION ALL
SELECT c.oid::regclass::text FROM pg_class AS c
 WHERE c.relnamespace IN ` + ourSchemas + ` AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND obj_description(c.oid, 'pg_class') IS NULL
UNION ALL
SELECT y.oid::regtype::text FROM pg_type AS y
  LEFT JOIN pg_class AS c ON c.oid = y.typrelid
 WHERE y.typnamespace IN ` + ourSchemas + ` AND y.typelem = 0 AND coalesce(c.relkind, 'c') = 'c'
   AND obj_description(y.oid, 'pg_type') IS NULL
UNION ALL
SELECT c.oid::regclass::text || '.' || a.attname FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
 WHERE c.relnamespace IN ` + ourSchemas + ` AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c') AND a.attnum > 0 AND NOT a.attisdropped
   AND col_description(c.oid, a.attnum) IS NULL
ORDER BY 1`

func TestEverythingHasAComment(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	require.Empty(t, rows(t, conn, uncommented))

	run(t, conn, `
		COMMENT ON COLUMN guard.result.fence IS NULL;
		COMMENT ON COLUMN payments.orders.amount IS NULL;
		COMMENT ON FUNCTION guard.claim IS NULL;
		COMMENT ON SCHEMA payments IS NULL;
		COMMENT ON TABLE payments.orders IS NULL;
		COMMENT ON TYPE guard.result IS NULL`)
	require.Equal(t, []string{
		"guard.claim(text,text,text,bytea,interval,interval)", "guard.result", "guard.result.fence",
		"payments", "payments.orders", "payments.orders.amount",
	}, rows(t, conn, uncommented))
}

// One function a file, in the folder of its schema and named after it, and a
// file for each function.
func TestOneFunctionAFile(t *testing.T) {
	t.Parallel()
	created := regexp.MustCompile(`(?m)^CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) ([\w.]+)\s*\(`)
	var inFiles []string
	for path, text := range sources(t, "") {
		schema, file := filepath.Base(filepath.Dir(path)), strings.TrimSuffix(filepath.Base(path), ".sql")
		if file == "install" || file == "grants" {
			require.NotRegexp(t, created, text, path)
			continue
		}
		made := created.FindAllStringSubmatch(text, -1)
		require.Len(t, made, 1, "%s makes one function", path)
		require.Equal(t, schema+"."+file, made[0][1], path)
		inFiles = append(inFiles, made[0][1])
	}
	require.ElementsMatch(t, inFiles, rows(t, pgtest.New(t).Conn(t), `
		SELECT p.pronamespace::regnamespace || '.' || p.proname FROM pg_proc AS p WHERE p.pronamespace IN `+ourSchemas))
}

// badParameters do not show in a statement that they are parameters.
const badParameters = `
SELECT p.oid::regprocedure || ' ' || coalesce(nullif(a.name, ''), 'unnamed')
  FROM pg_proc AS p
 CROSS JOIN LATERAL (
       SELECT p.proargnames[i] AS name, coalesce(p.proargmodes[i], 'i') AS mode
         FROM generate_series(1, cardinality(coalesce(p.proallargtypes, p.proargtypes))) AS i) AS a
 WHERE p.pronamespace IN ` + ourSchemas + `
   AND a.mode NOT IN ('o', 't')
   AND coalesce(a.name, '') !~ '^p_[a-z]'`

func TestParametersAndVariablesShowWhatTheyAre(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	require.Empty(t, rows(t, conn, badParameters))
	for function, body := range bodies(t, conn, "") {
		require.Empty(t, badVariables(body), function)
	}

	run(t, conn, `
		CREATE FUNCTION guard.named(key text, p_ok text, OUT free text, INOUT "P" int) LANGUAGE sql AS 'SELECT $1, 1';
		CREATE FUNCTION guard.unnamed(text) RETURNS text LANGUAGE sql AS 'SELECT $1'`)
	require.ElementsMatch(t, []string{
		"guard.named(text,text,integer) key", "guard.named(text,text,integer) P", "guard.unnamed(text) unnamed",
	}, rows(t, conn, badParameters))
	require.Equal(t, []string{"count", "c_x", "v_y", "n"}, badVariables(`
		DECLARE
		    count int := 0; -- with a comment
		    c_x   text := ';';
		    v_y   CONSTANT text := 'y';
		    v_ok  int;
		    c_ok  CONSTANT int := 1;
		BEGIN
		    FOR n IN 1..2 LOOP NULL; END LOOP;
		    FOR v_n IN 1..2 LOOP NULL; END LOOP;
		    PERFORM FROM t FOR UPDATE;
		END;`))
}

var (
	declared = regexp.MustCompile(`(?is)\bDECLARE\b(.*?)\bBEGIN\b`)
	loop     = regexp.MustCompile(`(?is)\bFOR(?:EACH)?\s+(\w+)\s+(?:IN|SLICE)\b`)
)

// badVariables are those whose names do not begin with v_, or c_ for a constant.
func badVariables(body string) []string {
	var bad []string
	body = withoutText(body)
	for _, block := range declared.FindAllStringSubmatch(body, -1) {
		for declaration := range strings.SplitSeq(block[1], ";") {
			words := strings.Fields(declaration)
			if len(words) == 0 {
				continue
			}
			prefix := "v_"
			if slices.Contains(words, "CONSTANT") {
				prefix = "c_"
			}
			if !strings.HasPrefix(words[0], prefix) {
				bad = append(bad, words[0])
			}
		}
	}
	for _, variable := range loop.FindAllStringSubmatch(body, -1) {
		if !strings.HasPrefix(variable[1], "v_") {
			bad = append(bad, variable[1])
		}
	}
	return bad
}

// needlessIndexes start with the same columns as another, unique or longer
// index of their table, which serves every query that they could.
const needlessIndexes = `
SELECT i.indexrelid::regclass::text
  FROM pg_index AS i
  JOIN pg_class AS c ON c.oid = i.indrelid
  JOIN pg_index AS o ON o.indrelid = i.indrelid AND o.indexrelid <> i.indexrelid
 WHERE c.relnamespace IN ` + ourSchemas + `
   AND i.indpred IS NULL AND i.indexprs IS NULL AND o.indpred IS NULL AND o.indexprs IS NULL
   AND NOT i.indisprimary
   AND (starts_with(o.indkey::text || ' ', i.indkey::text || ' ') AND NOT i.indisunique
        OR starts_with(i.indkey::text || ' ', o.indkey::text || ' ') AND o.indisunique)
 ORDER BY 1`

func TestNoIndexIsNeedless(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	require.Empty(t, rows(t, conn, needlessIndexes))
	require.Equal(t, []string{"guard.idempotency_keys_pkey"}, rows(t, conn, `
		SELECT i.indexrelid::regclass::text FROM pg_index AS i WHERE i.indrelid = 'guard.idempotency_keys'::regclass`),
		"one index to maintain in each claim")

	run(t, conn, `
		CREATE INDEX same ON guard.idempotency_keys (scope, key);
		CREATE INDEX shorter ON guard.idempotency_keys (scope);
		CREATE INDEX longer ON guard.idempotency_keys (scope, key, fence);
		CREATE UNIQUE INDEX twice ON guard.idempotency_keys (scope, key);
		CREATE INDEX other ON guard.idempotency_keys (key);
		CREATE INDEX partial ON guard.idempotency_keys (scope, key) WHERE completed_at IS NULL`)
	require.ElementsMatch(t, []string{"guard.same", "guard.shorter", "guard.longer", "guard.twice"},
		slices.Compact(rows(t, conn, needlessIndexes)))
}

// complaints are what plpgsql_check finds: errors, and warnings of every kind.
const complaints = `
SELECT concat_ws(': ', p.oid::regprocedure, c.lineno, c.level, c.message, c.detail, c.hint)
  FROM pg_proc AS p
  LEFT JOIN pg_trigger AS g ON g.tgfoid = p.oid
 CROSS JOIN LATERAL public.plpgsql_check_function_tb(
       p.oid, coalesce(g.tgrelid, 0), fatal_errors => false, other_warnings => true, performance_warnings => true,
       extra_warnings => true, security_warnings => true) AS c
 WHERE p.pronamespace IN ` + ourSchemas + `
   AND p.prolang = (SELECT l.oid FROM pg_language AS l WHERE l.lanname = 'plpgsql')
 ORDER BY 1`

func TestPLpgSQLCheck(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	run(t, conn, "CREATE EXTENSION plpgsql_check SCHEMA public")
	require.Empty(t, rows(t, conn, complaints))

	// It cannot tell that a dynamic statement writes; their own comments turn
	// that one kind of warning off.
	const optedOut = `SELECT p.proname::text FROM pg_proc AS p WHERE p.prosrc ~ '@plpgsql_check_options' ORDER BY 1`
	require.Equal(t, []string{"schedule_purge", "unschedule_purge"}, rows(t, conn, optedOut))
	require.Empty(t, rows(t, conn, `
		SELECT p.oid::regprocedure::text FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
		 WHERE p.pronamespace IN `+ourSchemas+` AND l.lanname <> 'plpgsql'`), "nothing is left out")

	run(t, conn, `
		CREATE FUNCTION guard.sloppy(p_unused int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
		DECLARE v_never int; v_date timestamp;
		BEGIN
		    v_date := clock_timestamp();
		    EXECUTE 'SELECT ' || missing FROM guard.idempotency_keys;
		    RETURN (SELECT nothing FROM guard.idempotency_keys);
		END $$;
		CREATE FUNCTION payments.sloppy() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN NEW.nothing := 1; RETURN NEW; END $$;
		CREATE TRIGGER sloppy BEFORE INSERT ON payments.orders FOR EACH ROW EXECUTE FUNCTION payments.sloppy()`)
	found := strings.Join(rows(t, conn, complaints), "\n")
	for _, expected := range []string{
		`column "missing" does not exist`, `column "nothing" does not exist`, "unused parameter", "never read",
		`record "new" has no field "nothing"`,
	} {
		require.Contains(t, found, expected)
	}
}
