package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The figures of docs/reliability.md stand between these lines.
const (
	figuresBegin = "<!-- Written by `go run ./internal/chaos/run render` from docs/reliability/*.json. -->\n"
	figuresEnd   = "<!-- End of what is written. -->\n"
)

// failovers are the runs of the page, in its order.
var failovers = []Failover{NoFailover, Synchronous, Asynchronous}

// Page puts the figures of the reports in dir, one for each kind of failover,
// into a page that has a place for them.
func Page(page, dir string) (string, error) {
	before, rest, ok := strings.Cut(page, figuresBegin)
	_, after, closed := strings.Cut(rest, figuresEnd)
	if !ok || !closed {
		return "", errors.New("the page has no place for figures")
	}
	var reports []Report
	for _, failover := range failovers {
		content, err := os.ReadFile(filepath.Join(dir, string(failover)+".json")) //nolint:gosec // of this repository
		if err != nil {
			return "", fmt.Errorf("read the report of a run: %w", err)
		}
		var report Report
		if err := json.Unmarshal(content, &report); err != nil {
			return "", fmt.Errorf("read the report of the run with failover %s: %w", failover, err)
		}
		reports = append(reports, report)
	}
	return before + figuresBegin + "\n" + figures(reports) + "\n" + figuresEnd + after, nil
}

// figures are the tables of the page: a column for each run.
func figures(reports []Report) string {
	var out strings.Builder
	row := func(name string, cell func(Report) string) {
		out.WriteString("| " + name)
		for _, r := range reports {
			out.WriteString(" | " + cell(r))
		}
		out.WriteString(" |\n")
	}
	head := func(title string) {
		row(title, func(r Report) string {
			return map[Failover]string{
				NoFailover: "no failover", Synchronous: "synchronous standby", Asynchronous: "asynchronous standby",
			}[r.Failover]
		})
		out.WriteString("| ---" + strings.Repeat(" | ---:", len(reports)) + " |\n")
	}
	count := func(name string, n func(Report) int) {
		row(name, func(r Report) string { return fmt.Sprint(n(r)) })
	}

	head("run")
	row("repeat it with", func(r Report) string {
		return fmt.Sprintf("`--seed %d --duration %gs --failover %s`", r.Seed, r.Seconds, r.Failover)
	})
	row("servers, clients", func(r Report) string { return fmt.Sprintf("%d, %d", r.Servers, r.Clients) })
	count("requests judged", func(r Report) int { return r.Requests })
	count("idempotency keys", func(r Report) int { return r.Keys })
	count("replays", func(r Report) int { return r.Replays })
	for _, status := range union(reports, func(r Report) map[string]int { return r.Statuses }) {
		count("answered "+status, func(r Report) int { return r.Statuses[status] })
	}
	count("orders", func(r Report) int { return r.Orders })
	count("charges in the ledger", func(r Report) int { return r.Charges })
	count("refunds in the ledger", func(r Report) int { return r.Refunds })
	count("mails", func(r Report) int { return r.Mails })

	out.WriteString("\n")
	head("faults")
	for _, kind := range union(reports, func(r Report) map[string]int { return r.Faults }) {
		count(kind, func(r Report) int { return r.Faults[kind] })
	}
	count("**all**", Report.FaultCount)

	out.WriteString("\n")
	head("promise: places judged, broken")
	for i, verdict := range reports[0].Verdicts {
		row(verdict.Promise, func(r Report) string {
			if broken := len(r.Verdicts[i].Broken); broken > 0 {
				return fmt.Sprintf("%d, **%d**", r.Verdicts[i].Judged, broken)
			}
			return fmt.Sprintf("%d, 0", r.Verdicts[i].Judged)
		})
	}
	return out.String()
}

// union are the names that any of the reports has, sorted.
func union(reports []Report, of func(Report) map[string]int) []string {
	all := map[string]int{}
	for _, r := range reports {
		maps.Copy(all, of(r))
	}
	return slices.Sorted(maps.Keys(all))
}
