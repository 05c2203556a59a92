// Command bench measures what the guard costs: against no guard, against the
// least that a durable database must do, and against what else one could use.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/bench/internal/report"
	"github.com/payonce/payonce/bench/internal/suite"
)

// experiment is one part of the suite.
type experiment struct {
	name    string
	what    string
	measure func(context.Context, *suite.Suite) error
}

func experiments() []experiment {
	return []experiment{
		{"http", "the charge handler with and without the guard", measureHTTP},
		{"proxy", "a pass through payonce proxy with and without the guard", measureProxy},
		{"floor", "the guard's calls against the least that a durable table can do", measureFloor},
		{"peers", "the textbook's SQL, Redis, DBOS and River", measurePeers},
		{"growth", "tables of ten thousand to ten million keys; one key that all want", measureGrowth},
		{"purge", "a million expired keys purged while claims go on; a week's bloat", measurePurge},
		{"ceiling", "claims a second at saturation against pgbench's own INSERTs", measureCeiling},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "bench", Short: "Measure what the guard costs", SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(newRun(), newQuick(), newRender(), newCompare())
	if err := root.ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

type runOptions struct {
	only    []string
	scale   float64
	keys    int64
	dataDir string
	then    string
	out     string
	quick   bool
}

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the experiments and store what they found",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := o.run(cmd.Context(), cmd.OutOrStdout())
			return err
		},
	}
	o.flags(cmd)
	cmd.Flags().Float64Var(&o.scale, "scale", 1, "stretches every measurement; 1 is the reference")
	cmd.Flags().Int64Var(&o.keys, "most-keys", 1e7, "size of the largest table; 100000000 takes 90 GB and an hour")
	cmd.Flags().StringVar(&o.out, "out", "", "folder for the results, below which a folder is made for each run (default: none are stored)")
	return cmd
}

// flags are those that run and quick share.
func (o *runOptions) flags(cmd *cobra.Command) {
	var list strings.Builder
	for _, e := range experiments() {
		_, _ = fmt.Fprintf(&list, "  %-8s %s\n", e.name, e.what)
	}
	cmd.Long = cmd.Short + ".\n\nExperiments:\n" + list.String()
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "experiments to run (default all)")
	cmd.Flags().StringVar(&o.dataDir, "data-dir", "/var/tmp", "folder on a disk, for the server's files while it runs")
	cmd.Flags().StringVar(&o.then, "sql", "", "file of SQL to run in each database first: to measure a guard that was changed")
}

func (o *runOptions) run(ctx context.Context, out io.Writer) (*report.Result, error) {
	l, err := lab.Start(ctx, o.dataDir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Stop(context.WithoutCancel(ctx)) }()
	if o.then != "" {
		sql, err := os.ReadFile(o.then)
		if err != nil {
			return nil, fmt.Errorf("read the SQL to run first: %w", err)
		}
		l.Then = string(sql)
	}
	s, err := suite.New(ctx, l, o.scale, o.quick, out)
	if err != nil {
		return nil, err
	}
	s.MostKeys, s.DataDir = o.keys, o.dataDir
	if err := o.measure(ctx, s); err != nil {
		return nil, err
	}
	s.Done()
	if o.out == "" {
		return s.Result, nil
	}
	folder := filepath.Join(o.out, s.Result.Name())
	s.Step("writing %s", folder)
	return s.Result, s.Result.Write(folder)
}

func (o *runOptions) measure(ctx context.Context, s *suite.Suite) error {
	known := experiments()
	for _, name := range o.only {
		if !slices.ContainsFunc(known, func(e experiment) bool { return e.name == name }) {
			return fmt.Errorf("there is no experiment %s", name)
		}
	}
	for _, e := range known {
		if len(o.only) > 0 && !slices.Contains(o.only, e.name) {
			continue
		}
		s.Step("%s: %s", e.name, e.what)
		if err := e.measure(ctx, s); err != nil {
			return fmt.Errorf("experiment %s: %w", e.name, err)
		}
	}
	return nil
}
