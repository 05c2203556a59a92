package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/bench/internal/report"
)

// quickScale makes the whole suite run in about a minute.
const quickScale = 0.1

// bound is what a quick run is held to: how often as long one operation may
// take as another one of the same run, by their medians. It is far above what
// is aimed at, and far below what a broken guard would need: a short run on a
// busy machine must not fail, and it cannot tell more.
type bound struct {
	condition report.Condition
	of, to    string
	atMost    float64
}

func quickBounds() []bound {
	http := report.Condition{Experiment: "http", Clients: 8, RTT: time.Duration(0).String()}
	floor := report.Condition{Experiment: "floor", Clients: 1}
	peers := report.Condition{Experiment: "peers", Clients: 1}
	purge := report.Condition{Experiment: "purge", Clients: purgeClients}
	return []bound{
		{http, opNewKey, opUnguarded, 10},
		{http, opReplay, opUnguarded, 5},
		{http, opConflict, opUnguarded, 5},
		{http, opMismatch, opUnguarded, 5},
		{proxyCondition(8), opProxyNewKey, opProxyOff, 40},
		{proxyCondition(8), opProxyReplay, opProxyOff, 20},
		{floor, opClaim, opInsert, 8},
		{floor, opPair, opInsertUpdate, 8},
		{floor, opSQLReplay, opSelect, 8},
		{floor, opBeginFinish, opOrderWrites, 10},
		{peers, "payonce: claim + complete", "textbook SQL: SELECT, INSERT, UPDATE", 8},
		{purge, opBeside, opAlone, 10},
	}
}

func newQuick() *cobra.Command {
	o := runOptions{scale: quickScale, keys: 1e6, quick: true}
	cmd := &cobra.Command{
		Use:   "quick",
		Short: "Run all of it in about a minute, and fail where an answer is wrong or a ratio absurd",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.check(cmd.Context(), cmd.OutOrStdout()) },
	}
	o.flags(cmd)
	return cmd
}

// check runs and judges.
func (o *runOptions) check(ctx context.Context, out io.Writer) error {
	result, err := o.run(ctx, out)
	if err != nil {
		return err
	}
	checked, err := judge(result, o.only)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "quick: all answers were right, %d series and %d ratios within their bounds, in %s\n",
		len(result.Series), checked, result.Took)
	return err
}

// judge holds a run to the bounds of the experiments that it was to run, and
// tells how many there were.
func judge(result *report.Result, only []string) (int, error) {
	wanted := map[string]bool{}
	for _, e := range experiments() {
		wanted[e.name] = len(only) == 0
	}
	for _, name := range only {
		wanted[name] = true
	}
	var wrong []error
	for i := range result.Series {
		if s := &result.Series[i]; s.Count() == 0 {
			wrong = append(wrong, fmt.Errorf("%s: %s was never called", s.Experiment, s.Operation))
		}
	}
	checked := 0
	for _, b := range quickBounds() {
		if !wanted[b.condition.Experiment] {
			continue
		}
		checked++
		wrong = append(wrong, b.check(result))
	}
	if _, found := result.Figure("ceiling", "claim: rate"); wanted["ceiling"] && !found {
		wrong = append(wrong, errors.New("the ceiling was not measured"))
	}
	return checked, errors.Join(wrong...)
}

func (b bound) check(result *report.Result) error {
	of, err := result.Find(b.condition, b.of)
	if err != nil {
		return err
	}
	to, err := result.Find(b.condition, b.to)
	if err != nil {
		return err
	}
	if got := report.Ratio(of, to, report.P50); got > b.atMost {
		return fmt.Errorf("%s takes %.1f × as long as %s, which is more than %.0f ×", b.of, got, b.to, b.atMost)
	}
	return nil
}
