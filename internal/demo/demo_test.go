package demo

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/stage"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// setup builds the program and names the server that has the test's database.
func setup(t *testing.T) Options {
	t.Helper()
	binary, err := stage.Build(t.Context(), t.TempDir())
	require.NoError(t, err)
	return Options{Binary: binary, DatabaseURL: pgtest.Empty(t).URL, Seed: 1, Progress: t.Output()}
}

// FF-05, FF-08, FF-19, FF-25: the story as a newcomer sees it.
func TestTheGuardHoldsWhereTheOtherShopFails(t *testing.T) {
	t.Parallel()
	options := setup(t)
	var progress bytes.Buffer
	options.Progress = &progress
	result, err := Run(t.Context(), options)
	require.NoError(t, err, progress.String())
	require.Empty(t, result.Broken, progress.String())
	require.Equal(t, 22, result.Guarded.Charges)
	// Eight customers and the two of the killed server retried after the money
	// had moved, or clicked twice.
	require.GreaterOrEqual(t, result.Unguarded.DoubleCharges, 10, progress.String())
	require.Greater(t, result.Unguarded.Mails, result.Unguarded.Customers)
	require.Positive(t, result.Unguarded.Lost)
	require.Equal(t, 2*22, strings.Count(progress.String(), "/22"), "a line for each customer")

	var table bytes.Buffer
	require.NoError(t, result.Table(&table))
	require.Regexp(t, `(?m)^double charges +\d+ +0$`, table.String())
	for _, readme := range []string{"../../README.md", "../../README.zh-CN.md"} {
		require.Equal(t, rightColumn(table.String()), rightColumn(shown(t, readme)), readme)
	}

	conn, err := pgx.Connect(t.Context(), options.DatabaseURL)
	require.NoError(t, err)
	var left int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname LIKE 'payonce_demo_%'").Scan(&left))
	require.NoError(t, conn.Close(t.Context()))
	require.LessOrEqual(t, left, 1, "the demo's database is gone; another test's may be there")
}

// shown is the table that a README shows.
func shown(t *testing.T, readme string) string {
	t.Helper()
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "<!-- demo -->\n```text\n")
	require.True(t, found)
	table, _, _ := strings.Cut(after, "```")
	return table
}

var requests = regexp.MustCompile(`(?m)^requests .*$`)

// rightColumn is each line's name and its number with the guard, but for the
// requests, which depend on how long a customer has to wait.
func rightColumn(table string) []string {
	var lines []string
	for line := range strings.Lines(requests.ReplaceAllString(strings.TrimSpace(table), "")) {
		if columns := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1); len(columns) == 3 {
			lines = append(lines, columns[0]+": "+columns[2])
		}
	}
	return lines
}

// The judge sees a guard that is broken.
func TestABrokenGuardIsCaught(t *testing.T) {
	t.Parallel()
	options := setup(t)
	tamper, err := os.ReadFile("../stage/testdata/broken_guard.sql")
	require.NoError(t, err)
	options.tamper = string(tamper)
	result, err := Run(t.Context(), options)
	require.NoError(t, err)
	require.Positive(t, result.Guarded.DoubleCharges)
	require.Contains(t, strings.Join(result.Broken, "; "), "double charges")
	told, err := json.Marshal(result)
	require.NoError(t, err)
	require.Contains(t, string(told), `"with_the_guard"`)
}

func TestEachBrokenPromiseIsNamed(t *testing.T) {
	t.Parallel()
	whole := Tally{Requests: 9, Customers: 3, Charges: 3, Orders: 3, StockSold: 3, Mails: 3}
	require.Empty(t, whole.Broken())
	for says, change := range map[string]func(*Tally){
		"1 double charges": func(t *Tally) { t.DoubleCharges++ },
		"2 charges for 3":  func(t *Tally) { t.Charges-- },
		"4 orders for 3":   func(t *Tally) { t.Orders++ },
		"4 packets of tea": func(t *Tally) { t.StockSold++ },
		"2 mails to 3":     func(t *Tally) { t.Mails-- },
		"1 payments lost":  func(t *Tally) { t.Lost++ },
		"unequal answers":  func(t *Tally) { t.Unequal++ },
	} {
		broken := whole
		change(&broken)
		require.Len(t, broken.Broken(), 1)
		require.Contains(t, broken.Broken()[0], says)
	}
}

func TestASeedRepeatsThePlan(t *testing.T) {
	t.Parallel()
	require.Equal(t, plan(7), plan(7))
	require.NotEqual(t, plan(7), plan(8))
}
