package chaos_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/chaos"
	"github.com/payonce/payonce/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func run(t *testing.T, options chaos.Options) chaos.Report {
	t.Helper()
	options.Duration, options.Servers, options.Clients = 12*time.Second, 2, 12
	options.Progress = t.Output()
	report, err := chaos.Run(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, report.Print(t.Output()))
	return report
}

// The short form of `make chaos`.
func TestShortRun(t *testing.T) {
	report := run(t, chaos.Options{Seed: 1})
	require.Empty(t, report.Broken())
	require.Greater(t, report.FaultCount(), 20)
	require.Greater(t, report.Requests, 100)
	require.Positive(t, report.Charges)
	for _, verdict := range report.Verdicts[:4] {
		require.Positive(t, verdict.Judged, verdict.Promise)
	}
}

// With a synchronous standby nothing that was answered is lost with the
// primary.
func TestSynchronousFailover(t *testing.T) {
	report := run(t, chaos.Options{Seed: 2, Failover: chaos.Synchronous})
	require.Empty(t, report.Broken())
	require.Equal(t, 1, report.Faults["database: failover"])
}

// A guard that forgets is caught, so that a run in which nothing is broken says
// something.
func TestABrokenGuardIsCaught(t *testing.T) {
	broken, err := os.ReadFile("../stage/testdata/broken_guard.sql")
	require.NoError(t, err)
	report := run(t, chaos.Tampered(chaos.Options{Seed: 1}, string(broken)))
	require.NotEmpty(t, report.Broken())
	require.Contains(t, strings.Join(report.Broken(), "\n"), "at most one charge per order")
}

// The page says what the committed reports say, of runs of ten minutes and more.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	written, err := chaos.Page(string(page), "../../docs/reliability")
	require.NoError(t, err)
	require.Equal(t, written, string(page), "go run ./internal/chaos/run render")
	for _, failover := range []string{"none", "synchronous"} {
		var report chaos.Report
		content, err := os.ReadFile("../../docs/reliability/" + failover + ".json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(content, &report))
		require.GreaterOrEqual(t, report.Seconds, 600.0)
		require.Empty(t, report.Broken(), failover)
	}
}
