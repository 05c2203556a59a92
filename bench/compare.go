package main

import (
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/bench/internal/report"
)

func newCompare() *cobra.Command {
	var floor float64
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Print what changed between two runs, given by their folders",
		Long: "Print what changed between two runs, given by their folders.\n\n" +
			"A latency of one run is divided by the other's only where both were measured under the same conditions. Two runs\n" +
			"are two times of day: believe a change that a second pair of runs shows too.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			old, err := report.Read(args[0])
			if err != nil {
				return err
			}
			fresh, err := report.Read(args[1])
			if err != nil {
				return err
			}
			if err := compare(cmd.OutOrStdout(), old, fresh, floor); err != nil {
				return err
			}
			return benchstat(cmd, args[0], args[1])
		},
	}
	cmd.Flags().Float64Var(&floor, "threshold", 10, "percent by which a median has to change to be printed")
	return cmd
}

// change is one operation in both runs.
type change struct {
	old, fresh *report.Series
}

func (c change) percent(quantile float64) float64 {
	return 100 * (c.fresh.Quantile(quantile)/c.old.Quantile(quantile) - 1)
}

func compare(w io.Writer, old, fresh *report.Result, threshold float64) error {
	var changes []change
	unmatched := 0
	for i := range fresh.Series {
		s := &fresh.Series[i]
		before, err := old.Find(report.Condition{
			Experiment: s.Experiment, Clients: s.Clients, RTT: s.RTT, Keys: s.Keys,
		}, s.Operation)
		if err != nil {
			unmatched++
			continue
		}
		if c := (change{before, s}); max(c.percent(50), -c.percent(50)) >= threshold {
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(b.percent(50), a.percent(50)) })
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "experiment\toperation\tclients\tround trip\tkeys\tp50 µs\t\t\tp99 µs\t\t\n")
	for _, c := range changes {
		s := c.fresh
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%d\t%.0f → %.0f\t%+.0f %%\t\t%.0f → %.0f\t%+.0f %%\n", s.Experiment, s.Operation,
			s.Clients, s.RTT, s.Keys, c.old.Quantile(50), s.Quantile(50), c.percent(50), c.old.Quantile(99), s.Quantile(99), c.percent(99))
	}
	_, _ = fmt.Fprintf(table, "%d of %d medians changed by %.0f %% or more; %d are in the new run only\n\n",
		len(changes), len(fresh.Series)-unmatched, threshold, unmatched)
	for _, t := range fresh.Targets {
		_, _ = fmt.Fprintf(table, "%s\t%s\t→ %.3g %s\n", t.Name, before(old, t.Name), t.Got, t.Unit)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the comparison: %w", err)
	}
	return nil
}

func before(old *report.Result, name string) string {
	for _, t := range old.Targets {
		if t.Name == name {
			return fmt.Sprintf("%.3g", t.Got)
		}
	}
	return "new"
}

// benchstat lets the Go project's own tool judge the repetitions, which every
// run leaves as Go benchmark lines too.
func benchstat(cmd *cobra.Command, old, fresh string) error {
	run := exec.CommandContext(cmd.Context(), "go", "tool", "-modfile="+filepath.Join(peersFolder, "go.mod"), "benchstat", //nolint:gosec // folders of the caller
		filepath.Join(old, report.LinesFile), filepath.Join(fresh, report.LinesFile))
	run.Stdout, run.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := run.Run(); err != nil {
		return fmt.Errorf("run benchstat: %w", err)
	}
	return nil
}
