package chaos

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Report is what a run was and what the judge found.
type Report struct {
	Seed     uint64   `json:"seed"`
	Seconds  float64  `json:"seconds"`
	Servers  int      `json:"servers"`
	Clients  int      `json:"clients"`
	Failover Failover `json:"failover"`

	// Requests are those that moved or ordered something; Keys their different
	// idempotency keys.
	Requests int            `json:"requests"`
	Replays  int            `json:"replays"`
	Keys     int            `json:"keys"`
	Orders   int            `json:"orders"`
	Charges  int            `json:"charges"`
	Refunds  int            `json:"refunds"`
	Mails    int            `json:"mails"`
	Statuses map[string]int `json:"statuses"`
	Faults   map[string]int `json:"faults"`
	// Cases are what a person would have to look at, by kind.
	Cases    map[string]int `json:"cases"`
	Verdicts []Verdict      `json:"verdicts"`
}

// Broken says which promises did not hold, and where.
func (r Report) Broken() []string {
	var broken []string
	for _, v := range r.Verdicts {
		for _, where := range v.Broken {
			broken = append(broken, v.Promise+": "+where)
		}
	}
	return broken
}

// FaultCount is the number of all injected faults.
func (r Report) FaultCount() int {
	n := 0
	for _, times := range r.Faults {
		n += times
	}
	return n
}

// shown is how many places of a broken promise are printed.
const shown = 10

// Print writes the report for people.
func (r Report) Print(out io.Writer) error {
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(out, format+"\n", args...)
		errs = append(errs, err)
	}
	line("seed %d, %.0f s, %d servers, %d clients, failover %s", r.Seed, r.Seconds, r.Servers, r.Clients, r.Failover)
	line("\n%-60s %8d", "requests", r.Requests)
	line("%-60s %8d", "idempotency keys", r.Keys)
	line("%-60s %8d", "replays", r.Replays)
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		line("  %-58s %8d", "answered "+status, r.Statuses[status])
	}
	line("%-60s %8d", "orders", r.Orders)
	line("%-60s %8d", "charges in the ledger", r.Charges)
	line("%-60s %8d", "refunds in the ledger", r.Refunds)
	line("%-60s %8d", "mails", r.Mails)
	line("\n%-60s %8d", "faults", r.FaultCount())
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		line("  %-58s %8d", kind, r.Faults[kind])
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Cases)) {
		line("%-60s %8d", "cases for a person: "+kind, r.Cases[kind])
	}
	line("\n%-90s %8s %8s", "promise", "judged", "broken")
	for _, v := range r.Verdicts {
		line("%-90s %8d %8d", v.Promise, v.Judged, len(v.Broken))
		for _, where := range v.Broken[:min(shown, len(v.Broken))] {
			line("    %s", strings.ReplaceAll(where, "\n", " "))
		}
	}
	return errors.Join(errs...)
}
