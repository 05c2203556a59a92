package main

import (
	"errors"
	"slices"
	"time"

	"github.com/payonce/payonce/bench/internal/report"
)

// The files of the charts, beside the results.
const (
	chartHTTP   = "http.svg"
	chartAdded  = "added.svg"
	chartPeers  = "peers.svg"
	chartGrowth = "growth.svg"
)

// draw writes the charts of a run into its folder.
func draw(r *report.Result, folder string) error {
	return errors.Join(drawHTTP(r, folder), drawAdded(r, folder), drawPeers(r, folder), drawGrowth(r, folder))
}

func httpCondition(clients int, roundTrip time.Duration) report.Condition {
	return report.Condition{Experiment: "http", Clients: clients, RTT: roundTrip.String()}
}

func drawHTTP(r *report.Result, folder string) error {
	var lines []report.Line
	for _, operation := range []string{opNewKey, opUnguarded, opReplay, opConflict} {
		series, err := r.Find(httpCondition(8, 0), operation)
		if err != nil {
			return err
		}
		lines = append(lines, series.Percentiles(operation))
	}
	chart := report.Chart{Title: "A charge over HTTP, 8 clients, loopback", X: "percentile", Y: "latency, ms"}
	return chart.WritePercentiles(folder, chartHTTP, lines...)
}

func drawAdded(r *report.Result, folder string) error {
	clients, roundTrips := httpConditions(false)
	var lines []report.Line
	for _, roundTrip := range roundTrips {
		line := report.Line{Name: "round trip to the database + " + roundTrip.String()}
		for _, n := range clients {
			guarded, err := r.Find(httpCondition(n, roundTrip), opNewKey)
			if err != nil {
				return err
			}
			plain, err := r.Find(httpCondition(n, roundTrip), opUnguarded)
			if err != nil {
				return err
			}
			line.X = append(line.X, float64(n))
			line.Y = append(line.Y, report.Added(guarded, plain, report.P50)/1e3)
		}
		lines = append(lines, line)
	}
	chart := report.Chart{Title: "What the guard adds to a new charge, median", X: "clients", Y: "added, ms", LogX: true}
	return chart.WriteLines(folder, chartAdded, lines...)
}

func drawPeers(r *report.Result, folder string) error {
	var names []string
	var values []float64
	for _, peer := range slices.Backward(peerNotes()) {
		series, err := r.Find(report.Condition{Experiment: "peers", Clients: 1}, peer.Operation)
		if err != nil {
			return err
		}
		names = append(names, peer.Short)
		values = append(values, series.Quantile(50)/1e3)
	}
	chart := report.Chart{Title: "A new key, from claim to stored answer, 1 client, median", X: "ms"}
	return chart.WriteBars(folder, chartPeers, names, values)
}

func drawGrowth(r *report.Result, folder string) error {
	var lines []report.Line
	for _, operation := range []string{opClaim, opSQLReplay} {
		for _, quantile := range []float64{99, 50} {
			line := report.Line{Name: operation + ", p" + map[float64]string{50: "50", 99: "99"}[quantile]}
			for _, series := range r.Of("growth") {
				if series.Operation == operation && series.Keys > 0 {
					line.X = append(line.X, float64(series.Keys))
					line.Y = append(line.Y, series.Quantile(quantile)/1e3)
				}
			}
			lines = append(lines, line)
		}
	}
	chart := report.Chart{Title: "Latency by the number of keys in the table", X: "keys", Y: "ms", LogX: true}
	return chart.WriteLines(folder, chartGrowth, lines...)
}
