package report

import (
	"fmt"
	"io"
	"strings"
)

// LinesFile is the name of a run's Go benchmark lines in its folder.
const LinesFile = "benchmark.txt"

// writeLines writes each repetition as a line of a Go benchmark, for benchstat.
func (r *Result) writeLines(w io.Writer) error {
	var lines strings.Builder
	_, _ = fmt.Fprintf(&lines, "goos: %s\ncpu: %s\n", strings.SplitN(r.Machine["os"], "/", 2)[0], r.Machine["cpu"])
	for i := range r.Series {
		s := &r.Series[i]
		for _, repetition := range s.Repetitions {
			_, _ = fmt.Fprintf(&lines, "Benchmark%s\t%d\t%.0f ns/op\t%.0f p99-ns\n",
				s.benchmarkName(), repetition.Count, repetition.P50*1e3, repetition.P99*1e3)
		}
	}
	if _, err := io.WriteString(w, lines.String()); err != nil {
		return fmt.Errorf("write the benchmark lines: %w", err)
	}
	return nil
}

// benchmarkName is a name as Go benchmarks have it: no space, conditions as
// name=value.
func (s *Series) benchmarkName() string {
	name := strings.ToUpper(s.Experiment[:1]) + s.Experiment[1:] + "/" + strings.NewReplacer(" ", "_", "/", "_").Replace(s.Operation)
	if s.RTT != "" {
		name += "/rtt=" + s.RTT
	}
	if s.Keys > 0 {
		name += fmt.Sprintf("/keys=%d", s.Keys)
	}
	return fmt.Sprintf("%s/clients=%d", name, s.Clients)
}
