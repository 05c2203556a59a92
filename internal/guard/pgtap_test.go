package guard_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

var tapLine = regexp.MustCompile(`^(not ok|ok) (\d+)(?: - (.*))?`)

// TestPgTAP runs the guard's tests in SQL, with no Go between: one file, one
// fresh database, one subtest per assertion.
func TestPgTAP(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("pgtap/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(file)
			require.NoError(t, err)
			lines := runTAP(t, pgtest.New(t).Conn(t), string(script))
			reportTAP(t, lines)
		})
	}
}

// runTAP runs a script statement by statement, as psql would, and returns all
// that it printed.
func runTAP(t *testing.T, conn *pgx.Conn, script string) []string {
	t.Helper()
	for _, sql := range []string{"SET search_path = public, pg_catalog", "CREATE EXTENSION pgtap"} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	var lines []string
	results, err := conn.PgConn().Exec(t.Context(), script).ReadAll()
	require.NoError(t, err)
	for _, result := range results {
		for _, row := range result.Rows {
			for _, value := range row {
				lines = append(lines, strings.Split(string(value), "\n")...)
			}
		}
	}
	return lines
}

// reportTAP fails on a failed assertion and on a plan that was not kept.
func reportTAP(t *testing.T, lines []string) {
	t.Helper()
	planned, ran := "", 0
	for i, line := range lines {
		if strings.HasPrefix(line, "1..") {
			planned = line
			continue
		}
		match := tapLine.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		ran++
		name := match[2] + " " + match[3]
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "ok", match[1], strings.Join(lines[i:min(i+6, len(lines))], "\n"))
		})
	}
	require.Regexp(t, fmt.Sprintf(`^1\.\.%d$`, ran), planned, "the plan was not kept:\n%s", strings.Join(lines, "\n"))
}

// The runner can fail.
func TestPgTAPRunnerSeesFailures(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	lines := runTAP(t, conn, "SELECT plan(2); SELECT is(1, 2, 'wrong'); SELECT ok(true, 'right'); SELECT * FROM finish();")
	require.Contains(t, lines, "not ok 1 - wrong")
	require.Contains(t, lines, "ok 2 - right")
}
