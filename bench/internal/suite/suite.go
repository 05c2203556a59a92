// Package suite is what the experiments of the benchmark share: the server,
// how long to measure, and where the results go.
package suite

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/bench/internal/load"
	"github.com/payonce/payonce/bench/internal/report"
)

// A slice at a low rate is made long enough for the fewest calls that have a
// median, but never longer than longest.
const (
	fewest  = 20
	longest = 2 * time.Second
)

// Suite is one run of the benchmark.
type Suite struct {
	Lab    *lab.Lab
	Result *report.Result
	// Scale stretches every measurement; 1 is the reference run.
	Scale float64
	// Quick leaves out the conditions that take long.
	Quick bool
	// MostKeys bounds the tables of the growth experiment.
	MostKeys int64
	// DataDir is where the servers' files are.
	DataDir string
	// Out takes the progress.
	Out io.Writer

	started time.Time
}

// New starts a run on a server and notes where it happens.
func New(ctx context.Context, l *lab.Lab, scale float64, quick bool, out io.Writer) (*Suite, error) {
	machine, err := l.Machine(ctx)
	if err != nil {
		return nil, err
	}
	settings, err := l.Settings(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &Suite{
		Lab: l, Scale: scale, Quick: quick, Out: out, started: now,
		Result: &report.Result{Started: now.UTC().Truncate(time.Second), Scale: scale, Machine: machine, Settings: settings},
	}, nil
}

// Step announces a part of the run.
func (s *Suite) Step(format string, args ...any) {
	s.print("[%4.0f s] %s\n", time.Since(s.started).Seconds(), fmt.Sprintf(format, args...))
}

func (s *Suite) print(format string, args ...any) { _, _ = fmt.Fprintf(s.Out, format, args...) }

// Done notes how long the run took.
func (s *Suite) Done() { s.Result.Took = time.Since(s.started).Round(time.Second).String() }

// Seconds is a length of n seconds at the reference scale.
func (s *Suite) Seconds(n float64) time.Duration {
	return time.Duration(n * s.Scale * float64(time.Second))
}

// Rows is a number of rows at the reference scale, at least 1000.
func (s *Suite) Rows(n int64) int64 { return max(1000, int64(float64(n)*s.Scale)) }

// Compare measures operations against each other, interleaved, and keeps and
// prints what it found. slice is how long each operation is measured in one
// repetition.
func (s *Suite) Compare(
	ctx context.Context, condition report.Condition, slice time.Duration, repetitions int, ops ...*load.Op,
) error {
	if condition.Offered > 0 {
		slice = max(slice, min(longest, time.Duration(fewest/condition.Offered*float64(time.Second))))
	}
	plan := load.Plan{Clients: condition.Clients, Rate: condition.Offered, For: slice}
	samples, err := load.Interleave(ctx, plan, repetitions, ops...)
	if err != nil {
		return fmt.Errorf("%s with %d clients: %w", condition.Experiment, condition.Clients, err)
	}
	for i, op := range ops {
		if err := s.Keep(condition, op.Name, samples[i]); err != nil {
			return err
		}
	}
	return s.ShowLast(len(ops))
}

// Keep adds the samples of one operation to the result.
func (s *Suite) Keep(condition report.Condition, operation string, samples []load.Sample) error {
	series, err := report.NewSeries(condition, operation, samples)
	if err != nil {
		return err
	}
	s.Result.Series = append(s.Result.Series, series)
	return nil
}

// ShowLast prints the series that were kept last.
func (s *Suite) ShowLast(n int) error {
	series := s.Result.Series[len(s.Result.Series)-n:]
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i := range series {
		one := &series[i]
		name := one.Operation
		if one.Keys > 0 {
			name = fmt.Sprintf("%s, %d keys", name, one.Keys)
		}
		_, _ = fmt.Fprintf(table, "\t%s\t%d calls\t%.0f/s\tp50 %.0f\tp95 %.0f\tp99 %.0f\tp99.9 %.0f µs\t\n", name,
			one.Count(), one.PerSecond(), one.Quantile(50), one.Quantile(95), one.Quantile(99), one.Quantile(99.9))
	}
	return table.Flush()
}

// Figure keeps and prints a number that is not a latency.
func (s *Suite) Figure(experiment, name string, value float64, unit, note string) {
	s.Result.Figures = append(s.Result.Figures,
		report.Figure{Experiment: experiment, Name: name, Value: value, Unit: unit, Note: note})
	s.print("  %s: %.4g %s\n", name, value, unit)
}

// AtMost holds the run against an upper bound.
func (s *Suite) AtMost(name string, bound, got float64, unit string) {
	s.target(report.Target{Name: name, Bound: bound, Got: got, Unit: unit})
}

// AtLeast holds the run against a lower bound.
func (s *Suite) AtLeast(name string, bound, got float64, unit string) {
	s.target(report.Target{Name: name, Bound: bound, AtLeast: true, Got: got, Unit: unit})
}

func (s *Suite) target(t report.Target) {
	s.Result.Targets = append(s.Result.Targets, t)
	verdict, sign := "holds", "≤"
	if !t.Holds() {
		verdict = "MISSED"
	}
	if t.AtLeast {
		sign = "≥"
	}
	s.print("  target %s: %.3g %s (%s %.3g): %s\n", t.Name, t.Got, t.Unit, sign, t.Bound, verdict)
}
