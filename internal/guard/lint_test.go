package guard_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// bodies are the installed functions of schema guard that meet a condition, by
// signature.
func bodies(t *testing.T, conn *pgx.Conn, condition string) map[string]string {
	t.Helper()
	result, err := conn.Query(t.Context(), `
		SELECT p.oid::regprocedure::text, p.prosrc FROM pg_proc AS p WHERE p.pronamespace IN `+ourSchemas+condition)
	require.NoError(t, err)
	found := map[string]string{}
	var function, body string
	_, err = pgx.ForEachRow(result, []any{&function, &body}, func() error {
		found[function] = body
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

var dollarQuote = regexp.MustCompile(`^\$(?:[A-Za-z_]\w*)?\$`)

// withoutText removes comments, and the inside of string literals, so that
// what is left is code.
func withoutText(sql string) string {
	var code strings.Builder
	for len(sql) > 0 {
		length := 1
		switch quote := dollarQuote.FindString(sql); {
		case strings.HasPrefix(sql, "--"):
			length = upTo(sql, "\n", 2) - 1
		case strings.HasPrefix(sql, "/*"):
			length = upTo(sql, "*/", 2)
		case sql[0] == '\'':
			length = upTo(sql, "'", 1)
			code.WriteString("''")
		case quote != "":
			length = upTo(sql, quote, len(quote))
			code.WriteString("''")
		default:
			code.WriteByte(sql[0])
		}
		sql = sql[min(max(length, 1), len(sql)):]
	}
	return code.String()
}

// upTo is where the first end after the first skip bytes is over.
func upTo(sql, end string, skip int) int {
	at := strings.Index(sql[skip:], end)
	if at < 0 {
		return len(sql) + 1
	}
	return skip + at + len(end)
}

func TestWithoutText(t *testing.T) {
	t.Parallel()
	for sql, code := range map[string]string{
		"a -- it's a comment; b\nc":        "a \nc",
		"a -- to the end":                  "a ",
		"a /* it's; */ b":                  "a  b",
		"a 'it''s -- no comment; /*' b":    "a '''' b",
		"a $q$ it's -- text; $$ $q$ b":     "a '' b",
		"a $$ text; $$ b":                  "a '' b",
		"f($1, 'x')":                       "f($1, '')",
		"RAISE EXCEPTION 'a'; -- 'b\n'c';": "RAISE EXCEPTION ''; \n'';",
	} {
		require.Equal(t, code, withoutText(sql), sql)
	}
}

// A statement that writes starts at one of these words; FOR UPDATE, DO UPDATE
// and the like lock or belong to a statement that has started.
var (
	writingWord = regexp.MustCompile(`(?i)\b(?:WITH|INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\b`)
	lockingWord = regexp.MustCompile(`(?i)\b(?:FOR|KEY|DO)\s+UPDATE\b`)
	writes      = regexp.MustCompile(`(?i)\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\b`)
	called      = regexp.MustCompile(`([a-zA-Z_][\w.]*)\s*\(`)
)

// writingStatements are the SQL statements in a body that write, without what
// PL/pgSQL has before them, such as IF and its condition.
func writingStatements(body string) []string {
	var found []string
	for chunk := range strings.SplitSeq(lockingWord.ReplaceAllString(withoutText(body), "locking"), ";") {
		start := writingWord.FindStringIndex(chunk)
		if start != nil && writes.MatchString(chunk[start[0]:]) {
			found = append(found, chunk[start[0]:])
		}
	}
	return found
}

// volatileCalls are the volatile functions that a statement calls.
func volatileCalls(statement string, volatile map[string]bool) []string {
	var found []string
	for _, call := range called.FindAllStringSubmatch(statement, -1) {
		if name := strings.ToLower(call[1]); volatile[name] {
			found = append(found, name)
		}
	}
	return found
}

// volatileFunctions are named as a function with our search_path would name
// them.
func volatileFunctions(t *testing.T, conn *pgx.Conn) map[string]bool {
	t.Helper()
	require.Empty(t, rows(t, conn, `
		SELECT o.oid::regoperator::text FROM pg_operator AS o JOIN pg_proc AS p ON p.oid = o.oprcode WHERE p.provolatile = 'v'
		UNION ALL
		SELECT c.castfunc::regprocedure::text FROM pg_cast AS c JOIN pg_proc AS p ON p.oid = c.castfunc WHERE p.provolatile = 'v'`),
		"operators and casts call no volatile function, so that names tell all")
	volatile := map[string]bool{}
	for _, name := range rows(t, conn, `
		SELECT p.proname::text FROM pg_proc AS p WHERE p.provolatile = 'v' AND p.pronamespace = 'pg_catalog'::regnamespace
		UNION ALL
		SELECT p.pronamespace::regnamespace || '.' || p.proname FROM pg_proc AS p WHERE p.provolatile = 'v'`) {
		volatile[name] = true
	}
	for _, name := range []string{"clock_timestamp", "pg_catalog.random", "nextval", "guard.claim"} {
		require.True(t, volatile[name], name)
	}
	return volatile
}

// Citus refuses a volatile function inside a statement that writes: it would
// run on several nodes with several results. What is needed goes into a
// variable first.
func TestNoVolatileFunctionInAStatementThatWrites(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	volatile := volatileFunctions(t, conn)
	seen := 0
	for function, body := range bodies(t, conn, " AND p.pronamespace = 'guard'::regnamespace") {
		for _, statement := range writingStatements(body) {
			seen++
			require.Empty(t, volatileCalls(statement, volatile), "%s: %s", function, statement)
		}
	}
	require.GreaterOrEqual(t, seen, 12, "the statements are found")
	require.Empty(t, rows(t, conn, `
		SELECT d.adrelid::regclass::text FROM pg_attrdef AS d JOIN pg_class AS c ON c.oid = d.adrelid
		 WHERE c.relnamespace = 'guard'::regnamespace
		UNION ALL
		SELECT g.tgrelid::regclass::text FROM pg_trigger AS g JOIN pg_class AS c ON c.oid = g.tgrelid
		 WHERE c.relnamespace = 'guard'::regnamespace AND NOT g.tgisinternal`), "nor in a default or a trigger")

	for body, expected := range map[string][]string{
		"UPDATE guard.t SET a = clock_timestamp();":                                      {"clock_timestamp"},
		"IF v_a THEN INSERT INTO guard.t VALUES (pg_catalog.random ()); END IF;":         {"pg_catalog.random"},
		"WITH d AS (SELECT random()), g AS (DELETE FROM guard.t) SELECT 1 INTO v_a;":     {"random"},
		"DELETE FROM guard.t WHERE a = Guard.Hold(1) RETURNING nextval('s') INTO v_a;":   {"guard.hold", "nextval"},
		"IF clock_timestamp() > v_a THEN UPDATE guard.t AS k SET a = least(a, v_b);":     nil,
		"PERFORM random() FROM guard.t FOR NO KEY UPDATE; v_a := clock_timestamp();":     nil,
		"SELECT random() INTO v_a FROM guard.t FOR UPDATE SKIP LOCKED;":                  nil,
		"INSERT INTO guard.t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = timeofday();":  {"timeofday"},
		"RAISE EXCEPTION 'UPDATE t SET a = random()'; -- UPDATE t SET a = random()":      nil,
		"MERGE INTO guard.t USING u ON true WHEN MATCHED THEN UPDATE SET a = random();":  {"random"},
		"UPDATE guard.t SET a = extract(epoch FROM now()) WHERE b IN (1, coalesce(2));":  nil,
		"IF guard.hold(p_key) THEN PERFORM guard.extend(p_key); END IF; RETURN random()": nil,
	} {
		var found []string
		for _, statement := range writingStatements(body) {
			found = append(found, volatileCalls(statement, volatile)...)
		}
		require.Equal(t, expected, found, body)
	}
}

// What a function of the hot path must not contain. A block that catches
// exceptions is a subtransaction; a sequence, an advisory lock and a setting
// outlive the transaction, or tie it to the session; a dynamic statement would
// hide from these checks.
var (
	raises    = regexp.MustCompile(`(?i)\bRAISE\s+EXCEPTION\b`)
	forbidden = regexp.MustCompile(`(?i)\bEXCEPTION\b|\b(?:nextval|currval|setval|lastval)\b|advisory|\bset_config\b` +
		`|(?:^|;|\b(?:BEGIN|THEN|ELSE|LOOP))\s*(?:SET|RESET)\b|\bEXECUTE\b|\b(?:UN)?LISTEN\b|\bNOTIFY\b|\bpg_notify\b` +
		`|\bTEMP(?:ORARY)?\b|\bLOCK\s+TABLE\b|\b(?:COMMIT|ROLLBACK|SAVEPOINT)\b`)
	tableRead  = regexp.MustCompile(`(?i)\b(?:FROM|UPDATE|INTO|JOIN|USING)\s+(?:ONLY\s+)?guard\.idempotency_keys\b`)
	namesScope = regexp.MustCompile(`\bscope = p_scope\b`)
	namesKey   = regexp.MustCompile(`\bkey = p_key\b`)
	insertsKey = regexp.MustCompile(`\(\s*scope, key, [\w, ]+\)\s*VALUES\s*\(\s*p_scope, p_key, `)
)

// hotFaults are the rules that a function of the hot path breaks.
func hotFaults(body string, hot []string) []string {
	code := raises.ReplaceAllString(withoutText(body), "RAISE")
	var faults []string
	if found := forbidden.FindString(code); found != "" {
		faults = append(faults, "has "+strings.Join(strings.Fields(found), " "))
	}
	for _, call := range called.FindAllStringSubmatch(code, -1) {
		if name, ours := strings.CutPrefix(call[1], "guard."); ours && !slices.Contains(hot, name) {
			faults = append(faults, "calls "+call[1])
		}
	}
	for statement := range strings.SplitSeq(code, ";") {
		named := namesScope.MatchString(statement) && namesKey.MatchString(statement) || insertsKey.MatchString(statement)
		if tableRead.MatchString(statement) && !named {
			faults = append(faults, "does not name scope and key")
		}
	}
	return faults
}

// The hot path is every function that is told a key, and what those call.
func TestHotFunctionsKeepTheRules(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	const isHot = ` AND p.pronamespace = 'guard'::regnamespace AND ('p_key' = ANY (p.proargnames) OR p.provolatile = 'i')`
	hot := rows(t, conn, `SELECT p.proname::text FROM pg_proc AS p WHERE true`+isHot)
	require.Subset(t, hot, []string{"claim", "complete", "release", "extend", "abandon", "hold"})
	for function, body := range bodies(t, conn, isHot) {
		require.Empty(t, hotFaults(body, hot), function)
	}
	require.Empty(t, rows(t, conn, `
		SELECT c.relname::text FROM pg_class AS c WHERE c.relnamespace = 'guard'::regnamespace AND c.relkind = 'S'`), "no sequence")

	for body, fault := range map[string]string{
		"BEGIN a(); EXCEPTION WHEN unique_violation THEN NULL; END;": "has EXCEPTION",
		"v_a := nextval('s');":                                         "has nextval",
		"PERFORM pg_try_advisory_lock(1);":                             "has advisory",
		"BEGIN SET LOCAL lock_timeout = 0; END;":                       "has BEGIN SET",
		"BEGIN a(); RESET ALL; END;":                                   "has ; RESET",
		"PERFORM set_config('a', 'b', false);":                         "has set_config",
		"EXECUTE 'SELECT 1';":                                          "has EXECUTE",
		"COMMIT;":                                                      "has COMMIT",
		"PERFORM guard.stats();":                                       "calls guard.stats",
		"UPDATE guard.idempotency_keys AS k SET fence = 1;":            "does not name scope and key",
		"DELETE FROM guard.idempotency_keys AS k WHERE k.key = p_key;": "does not name scope and key",
		"SELECT 1 INTO v_a FROM x JOIN guard.idempotency_keys AS k ON k.scope = p_scope;":                  "does not name scope and key",
		"INSERT INTO guard.idempotency_keys AS k (scope, key, fence) VALUES (p_key, p_scope, 1);":          "does not name scope and key",
		"IF true THEN PERFORM FROM guard.idempotency_keys AS k WHERE k.scope = p_scope OR key = v_k; END;": "does not name scope and key",
	} {
		require.Equal(t, []string{fault}, hotFaults(body, hot), body)
	}
	require.Empty(t, hotFaults(`
		DECLARE v_row guard.idempotency_keys;
		BEGIN
		    RAISE EXCEPTION 'SET'; -- EXCEPTION
		    UPDATE guard.idempotency_keys AS k SET fence = 1 WHERE k.scope = p_scope AND k.key = p_key;
		    PERFORM guard.hold(p_scope => p_scope);
		END;`, hot))
}
