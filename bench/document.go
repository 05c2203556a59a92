package main

import (
	_ "embed" // the document's text
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/payonce/payonce/bench/internal/report"
)

//go:embed benchmarks.md.tmpl
var documentText string

// document is what the template of docs/benchmarks.md is filled with: numbers
// as text, each in the unit that its table names.
type document struct {
	Started   time.Time
	Took      string
	Folder    string
	Verdict   string
	Facts     []fact
	HTTP      []httpRow
	Added     []addedRow
	Proxy     []proxyRow
	Floor     []floorRow
	Peers     []peerRow
	Growth    []growthRow
	HotClaim  string
	HotReplay string
	Figures   []figureRow
	Purge     []latencyRow
	Targets   []targetRow
}

type (
	fact       struct{ Name, Value string }
	latencyRow struct{ Operation, P50, P95, P99, P999 string }
	httpRow    struct {
		latencyRow
		RTT, AddedP50, AddedP95, AddedP99 string
	}
	addedRow struct {
		Clients                                 int
		RTT, Offered                            string
		Plain50, Guarded50, AddedP50            string
		Plain99, Guarded99, AddedP99, AddedP999 string
	}
	proxyRow struct {
		latencyRow
		Clients            int
		AddedP50, AddedP99 string
	}
	floorRow struct {
		Clients                                               int
		Operation, P50, P99, PerSecond, Ratio, To, WAL, Pages string
	}
	peerRow   struct{ Short, One, Eight, Again, Lacks string }
	growthRow struct {
		Keys                                 int64
		Claim50, Claim99, Replay50, Replay99 string
	}
	figureRow struct{ Name, Value, Note string }
	targetRow struct{ Name, Aim, Got, Verdict string }
)

// writeDocument writes docs/benchmarks.md for a run whose files are in folder,
// a path from the repository's root.
func writeDocument(w io.Writer, r *report.Result, folder string) error {
	d := &document{Started: r.Started, Took: r.Took, Folder: folder, Facts: facts(r)}
	err := errors.Join(d.http(r), d.proxy(r), d.floor(r), d.peers(r), d.growth(r), d.purge(r))
	if err != nil {
		return err
	}
	d.figures(r)
	d.targets(r)
	parsed, err := template.New("benchmarks.md").Parse(documentText)
	if err != nil {
		return fmt.Errorf("parse the document's template: %w", err)
	}
	if err := parsed.Execute(w, d); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

func facts(r *report.Result) []fact {
	var found []fact
	for _, name := range []string{"cpu", "cores", "memory", "os", "kernel", "postgresql", "go", "flush"} {
		found = append(found, fact{name, r.Machine[name]})
	}
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		settings = append(settings, "`"+name+"="+r.Settings[name]+"`")
	}
	return append(found, fact{"PostgreSQL's settings", strings.Join(settings, ", ")})
}

// ms writes a latency given in µs.
func ms(micros float64) string { return strconv.FormatFloat(micros/1e3, 'f', 2, 64) }

func whole(value float64) string { return strconv.FormatFloat(value, 'f', 0, 64) }

func rowOf(s *report.Series) latencyRow {
	return latencyRow{s.Operation, ms(s.Quantile(50)), ms(s.Quantile(95)), ms(s.Quantile(99)), ms(s.Quantile(99.9))}
}

func (d *document) http(r *report.Result) error {
	clients, roundTrips := httpConditions(false)
	for _, roundTrip := range roundTrips {
		for _, n := range clients {
			condition := httpCondition(n, roundTrip)
			plain, err := r.Find(condition, opUnguarded)
			if err != nil {
				return err
			}
			guarded, err := r.Find(condition, opNewKey)
			if err != nil {
				return err
			}
			d.Added = append(d.Added, addedRow{
				Clients: n, RTT: roundTrip.String(), Offered: whole(guarded.Offered),
				Plain50: ms(plain.Quantile(50)), Guarded50: ms(guarded.Quantile(50)),
				AddedP50: ms(report.Added(guarded, plain, report.P50)),
				Plain99:  ms(plain.Quantile(99)), Guarded99: ms(guarded.Quantile(99)),
				AddedP99:  ms(report.Added(guarded, plain, report.P99)),
				AddedP999: ms(report.Added(guarded, plain, report.P999)),
			})
			if n == 8 {
				if err := d.httpRows(r, condition, plain); err != nil {
					return err
				}
			}
		}
	}
	return d.verdict(r)
}

func (d *document) httpRows(r *report.Result, condition report.Condition, plain *report.Series) error {
	for _, operation := range []string{opUnguarded, opNewKey, opReplay, opConflict, opMismatch} {
		series, err := r.Find(condition, operation)
		if err != nil {
			return err
		}
		row := httpRow{latencyRow: rowOf(series), RTT: condition.RTT}
		if operation != opUnguarded {
			row.AddedP50 = ms(report.Added(series, plain, report.P50))
			row.AddedP95 = ms(report.Added(series, plain, report.P95))
			row.AddedP99 = ms(report.Added(series, plain, report.P99))
		}
		d.HTTP = append(d.HTTP, row)
	}
	return nil
}

// proxy is empty for a run that did not measure it.
func (d *document) proxy(r *report.Result) error {
	for _, n := range proxyClients {
		plain, err := r.Find(proxyCondition(n), opProxyOff)
		if err != nil {
			return nil //nolint:nilerr // runs from before have no such part
		}
		for _, operation := range []string{opProxyOff, opProxyNewKey, opProxyReplay} {
			series, err := r.Find(proxyCondition(n), operation)
			if err != nil {
				return err
			}
			row := proxyRow{latencyRow: rowOf(series), Clients: n}
			if operation != opProxyOff {
				row.AddedP50 = ms(report.Added(series, plain, report.P50))
				row.AddedP99 = ms(report.Added(series, plain, report.P99))
			}
			d.Proxy = append(d.Proxy, row)
		}
	}
	return nil
}

// verdict answers the question that the page is opened for.
func (d *document) verdict(r *report.Result) error {
	condition := httpCondition(8, 0)
	plain, err := r.Find(condition, opUnguarded)
	if err != nil {
		return err
	}
	guarded, err := r.Find(condition, opNewKey)
	if err != nil {
		return err
	}
	replay, err := r.Find(condition, opReplay)
	if err != nil {
		return err
	}
	median, tail := report.Added(guarded, plain, report.P50), report.Added(guarded, plain, report.P99)
	say := func(micros float64) string {
		if micros < 2000 {
			return "less than 2 ms"
		}
		return "more than the 2 ms that are aimed at"
	}
	d.Verdict = fmt.Sprintf("**A new charge takes %s ms longer with the guard at the median (%s) and %s ms at p99 (%s)**, with 8 "+
		"clients\nover loopback. A retry is answered in %s ms at the median, where the unguarded handler takes %s ms to charge again.",
		ms(median), say(median), ms(tail), say(tail), ms(replay.Quantile(50)), ms(plain.Quantile(50)))
	return nil
}

func (d *document) floor(r *report.Result) error {
	for _, series := range r.Of("floor") {
		row := floorRow{
			Clients: series.Clients, Operation: series.Operation, P50: whole(series.Quantile(50)),
			P99: whole(series.Quantile(99)), PerSecond: whole(series.PerSecond()),
		}
		if wal, ok := r.Figure("floor", series.Operation+": WAL"); ok {
			row.WAL = whole(wal.Value)
		}
		if pages, ok := r.Figure("floor", series.Operation+": buffers"); ok {
			row.Pages = strconv.FormatFloat(pages.Value, 'f', 1, 64)
		}
		for _, pair := range floorPairs() {
			if pair.of != series.Operation {
				continue
			}
			to, err := r.Find(report.Condition{Experiment: "floor", Clients: series.Clients}, pair.to)
			if err != nil {
				return err
			}
			if row.Ratio != "" {
				row.Ratio, row.To = row.Ratio+"; ", row.To+"; "
			}
			ratio, _ := floorRatio(series, to)
			row.Ratio += fmt.Sprintf("%.2f ×", ratio)
			row.To += pair.to
		}
		d.Floor = append(d.Floor, row)
	}
	return nil
}

func (d *document) peers(r *report.Result) error {
	for _, peer := range peerNotes() {
		one, err := r.Find(report.Condition{Experiment: "peers", Clients: 1}, peer.Operation)
		if err != nil {
			return err
		}
		eight, err := r.Find(report.Condition{Experiment: "peers", Clients: 8}, peer.Operation)
		if err != nil {
			return err
		}
		again, err := r.Find(report.Condition{Experiment: "peers", Clients: 1}, peer.Operation+", again")
		if err != nil {
			return err
		}
		d.Peers = append(d.Peers, peerRow{
			peer.Short, ms(one.Quantile(50)), ms(eight.Quantile(50)), ms(again.Quantile(50)), peer.Lacks,
		})
	}
	return nil
}

func (d *document) growth(r *report.Result) error {
	for _, series := range r.Of("growth") {
		if series.Operation != opClaim {
			continue
		}
		replay, err := r.Find(report.Condition{Experiment: "growth", Clients: series.Clients, Keys: series.Keys}, opSQLReplay)
		if err != nil {
			return err
		}
		d.Growth = append(d.Growth, growthRow{
			series.Keys, ms(series.Quantile(50)), ms(series.Quantile(99)), ms(replay.Quantile(50)), ms(replay.Quantile(99)),
		})
	}
	hot := report.Condition{Experiment: "growth", Clients: hotClients}
	claim, err := r.Find(hot, opHotClaim)
	if err != nil {
		return err
	}
	replay, err := r.Find(hot, opHotReplay)
	if err != nil {
		return err
	}
	d.HotClaim, d.HotReplay = ms(claim.Quantile(50)), ms(replay.Quantile(50))
	return nil
}

func (d *document) purge(r *report.Result) error {
	for _, operation := range []string{opAlone, opBeside} {
		series, err := r.Find(report.Condition{Experiment: "purge", Clients: purgeClients}, operation)
		if err != nil {
			return err
		}
		d.Purge = append(d.Purge, rowOf(series))
	}
	return nil
}

func (d *document) figures(r *report.Result) {
	for _, f := range r.Figures {
		if f.Experiment != "growth" && f.Experiment != "purge" && f.Experiment != "ceiling" {
			continue
		}
		value := strconv.FormatFloat(f.Value, 'f', 2, 64)
		if f.Value >= 100 {
			value = whole(f.Value)
		}
		d.Figures = append(d.Figures, figureRow{f.Experiment + ": " + f.Name, strings.TrimSpace(value + " " + f.Unit), f.Note})
	}
}

func (d *document) targets(r *report.Result) {
	for _, t := range r.Targets {
		sign, verdict := "≤", "holds"
		if t.AtLeast {
			sign = "≥"
		}
		if !t.Holds() {
			verdict = "**missed**"
		}
		d.Targets = append(d.Targets, targetRow{
			t.Name, fmt.Sprintf("%s %.4g %s", sign, t.Bound, t.Unit), fmt.Sprintf("%.3g %s", t.Got, t.Unit), verdict,
		})
	}
}
