package guard_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

const pgtapSetup = "pgtap/setup.sql"

// TestPgTAP tests each function of the guard in SQL alone, one file a function,
// in each isolation level, as psql runs it: FF-02, FF-04, FF-05, FF-07, FF-12,
// FF-16, FF-31, FF-32. One subtest for each assertion. Each file starts with an
// empty table and leaves nothing else behind.
func TestPgTAP(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("pgtap/*.sql")
	require.NoError(t, err)
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			conn := db.Conn(t)
			psql(t, db, level, pgtapSetup)
			for _, file := range files {
				if file == pgtapSetup {
					continue
				}
				t.Run(strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
					run(t, conn, "TRUNCATE guard.idempotency_keys")
					output := psql(t, db, level, file)
					assertions, err := readTAP(output)
					require.NoError(t, err, output)
					for _, a := range assertions {
						t.Run(a.description, func(t *testing.T) {
							require.True(t, a.ok, a.diagnostics)
						})
					}
				})
			}
		})
	}
}

// testedElsewhere are the functions without a file of their own, since they
// need an extension or a stand-in for one.
var testedElsewhere = map[string]string{
	"cron_place":       "TestFF30_PgCronHere",
	"schedule_purge":   "TestFF30_PgCronHere",
	"unschedule_purge": "TestFF30_PgCronHere",
	"purge_job":        "TestFF30_PgCronHere",
	"distribute":       "TestDistribute",
}

func TestEveryFunctionHasItsPgTAP(t *testing.T) {
	t.Parallel()
	functions := rows(t, pgtest.New(t).Conn(t), `
		SELECT DISTINCT p.proname::text FROM pg_proc AS p WHERE p.pronamespace = 'guard'::regnamespace`)
	require.NotEmpty(t, functions)
	expected := []string{pgtapSetup}
	for _, function := range functions {
		if testedElsewhere[function] == "" {
			expected = append(expected, "pgtap/"+function+".sql")
		}
	}
	files, err := filepath.Glob("pgtap/*.sql")
	require.NoError(t, err)
	require.ElementsMatch(t, expected, files)
}

// psql runs a file in a session whose transactions have an isolation level,
// and returns what it printed.
func psql(t *testing.T, db *pgtest.DB, level, file string) string {
	t.Helper()
	options := "-c search_path=test -c default_transaction_isolation=" + strings.ReplaceAll(level, " ", `\ `)
	command := exec.CommandContext(t.Context(), "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", db.URL, "-f", file)
	command.Env = append(os.Environ(), "PGOPTIONS="+options, "PGCLIENTENCODING=UTF8")
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return string(output)
}

type assertion struct {
	ok          bool
	description string
	diagnostics string
}

var (
	tapPlan = regexp.MustCompile(`^1\.\.(\d+)$`)
	tapLine = regexp.MustCompile(`^(not )?ok (\d+) - (.+)$`)
)

// readTAP reads the Test Anything Protocol, as far as pgTAP speaks it
// (https://testanything.org/tap-specification.html): a plan, then as many
// numbered assertions, all with a description, and nothing else.
func readTAP(output string) ([]assertion, error) {
	var found []assertion
	planned := -1
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		match := tapLine.FindStringSubmatch(line)
		switch {
		case match != nil:
			if match[2] != strconv.Itoa(len(found)+1) {
				return nil, fmt.Errorf("assertion %d has number %s", len(found)+1, match[2])
			}
			found = append(found, assertion{ok: match[1] == "", description: match[3]})
		case tapPlan.MatchString(line):
			if planned >= 0 || len(found) > 0 {
				return nil, errors.New("a plan that does not come first")
			}
			planned, _ = strconv.Atoi(tapPlan.FindStringSubmatch(line)[1])
		case strings.HasPrefix(line, "#") && len(found) > 0:
			found[len(found)-1].diagnostics += line + "\n"
		case line != "":
			return nil, fmt.Errorf("not TAP: %q", line)
		}
	}
	if planned != len(found) || planned < 1 {
		return nil, fmt.Errorf("%d assertions planned, %d made", planned, len(found))
	}
	return found, nil
}

func TestReadTAP(t *testing.T) {
	t.Parallel()
	found, err := readTAP("1..2\nok 1 - right\n\nnot ok 2 - wrong\n# have: 1\n# want: 2\n")
	require.NoError(t, err)
	require.Equal(t, []assertion{
		{ok: true, description: "right"},
		{ok: false, description: "wrong", diagnostics: "# have: 1\n# want: 2\n"},
	}, found)
	for name, output := range map[string]string{
		"nothing":                  "",
		"no plan":                  "ok 1 - a\n",
		"an empty plan":            "1..0\n",
		"fewer than planned":       "1..2\nok 1 - a\n",
		"more than planned":        "1..1\nok 1 - a\nok 2 - b\n",
		"a plan that comes later":  "ok 1 - a\n1..1\n",
		"two plans":                "1..1\n1..1\nok 1 - a\n",
		"numbers out of order":     "1..2\nok 2 - a\nok 1 - b\n",
		"no description":           "1..1\nok 1\n",
		"something that is no TAP": "1..1\nok 1 - a\nt\n",
	} {
		_, err := readTAP(output)
		require.Error(t, err, name)
	}
}
