package guard_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

var (
	comment = regexp.MustCompile(`(?m)--.*$`)
	literal = regexp.MustCompile(`'(?:[^']|'')*'`)
	body    = regexp.MustCompile(`(?s)AS \$(?:function|procedure)\$(.*?)\$(?:function|procedure)\$`)
	called  = regexp.MustCompile(`(?i)\b([a-z_]+(?:\.[a-z_]+)?)\s*\(`)
)

// statements splits a function's body at its semicolons, without comments and
// the inside of literals.
func bodyStatements(source string) []string {
	match := body.FindStringSubmatch(source)
	if match == nil {
		return nil
	}
	text := literal.ReplaceAllString(comment.ReplaceAllString(match[1], ""), "''")
	return strings.Split(text, ";")
}

// writes tells whether a statement writes to a table.
var writes = regexp.MustCompile(`(?i)\b(INSERT INTO|UPDATE [a-z]+\.|DELETE FROM|MERGE INTO)`)

// volatileIn lists the volatile functions that a writing statement calls.
func volatileIn(statement string, volatile map[string]bool) []string {
	if !writes.MatchString(statement) {
		return nil
	}
	var found []string
	for _, match := range called.FindAllStringSubmatch(statement, -1) {
		name := strings.ToLower(match[1])
		if volatile[name] {
			found = append(found, name)
		}
	}
	return found
}

// Citus refuses a volatile function inside a statement that writes; whatever
// has to be computed is computed into a variable first.
func TestNoVolatileFunctionInAWrite(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	volatile := map[string]bool{}
	for _, name := range rows(t, conn, `SELECT CASE n.nspname WHEN 'pg_catalog' THEN p.proname::pg_catalog.text
	       ELSE pg_catalog.concat(n.nspname, '.', p.proname) END
	  FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
	 WHERE p.provolatile OPERATOR(pg_catalog.=) 'v'
	   AND n.nspname OPERATOR(pg_catalog.=) ANY (ARRAY['pg_catalog', 'guard', 'payments']::pg_catalog.name[])`) {
		volatile[name] = true
	}
	require.True(t, volatile["clock_timestamp"] && volatile["random"] && volatile["guard.claim"])
	for path, source := range sources(t, "guard") {
		for _, statement := range bodyStatements(source) {
			require.Empty(t, volatileIn(statement, volatile), "%s: %s", path, statement)
		}
	}
	// The check can fail.
	require.Equal(t, []string{"clock_timestamp"},
		volatileIn("UPDATE guard.idempotency_keys SET locked_at = clock_timestamp()", volatile))
	require.Equal(t, []string{"guard.hold"}, volatileIn("INSERT INTO t SELECT guard.hold($1)", volatile))
}

// The hot functions keep no state in the session, catch nothing and draw no
// sequence; each of their statements names scope and key.
func TestHotFunctionsKeepTheRules(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`(?i)\bEXCEPTION\s+WHEN\b|\bnextval\b|advisory|\bSET\s+(LOCAL|SESSION)\b|set_config|\bLISTEN\b|\bNOTIFY\b|\bTEMP`)
	all := sources(t, "guard")
	for _, name := range []string{"claim", "complete", "release", "extend", "abandon", "hold", "is_held", "holder_row", "inspect"} {
		path := filepath.ToSlash(filepath.Join("../../sql/guard", name+".sql"))
		statements := bodyStatements(all[path])
		require.NotEmpty(t, statements, path)
		for _, statement := range statements {
			require.NotRegexp(t, forbidden, statement, path)
			if !strings.Contains(statement, "guard.idempotency_keys AS k") {
				continue
			}
			named := regexp.MustCompile(`k\.scope = p_scope AND k\.key = p_key`).MatchString(statement) ||
				regexp.MustCompile(`ON CONFLICT \(scope, key\)`).MatchString(statement)
			require.True(t, named, "%s: a statement names not scope and key in full: %s", path, statement)
		}
	}
}
