package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/bench/internal/report"
	"github.com/payonce/payonce/bench/internal/suite"
)

const ceilingClients = 32

// The pgbench scripts: one durable INSERT of a row, which is the ceiling, a
// claim, and a claim that is completed. All make random numbers as keys.
const (
	insertScript = `\set key random(1, 9223372036854775806)
INSERT INTO floor.keys (scope, key, request_path, request_hash, fence, locked_at, lease_until, created_at, expires_at)
VALUES ('bench', :key::text, 'POST /v1/charges', sha256('x'), 1, now(), now(), now(), now());
`
	claimScript = `\set key random(1, 9223372036854775806)
SELECT fence FROM guard.claim('bench', :key::text, 'POST /v1/charges', sha256('x'));
`
	pairScript = `\set key random(1, 9223372036854775806)
SELECT fence FROM guard.claim('bench', :key::text, 'POST /v1/charges', sha256('x')) \gset
SELECT outcome FROM guard.complete('bench', :key::text, :fence, 201, '{"Content-Type": "application/json"}', '\x7b7d');
`
)

// saturation is one kind of load that pgbench applies.
type saturation struct {
	name   string
	script string
	// commits is how many durable commits one turn of the script makes.
	commits float64
	rates   []float64
	busy    []float64
	walSync []float64
	waits   map[string]int
}

// measureCeiling runs each load as fast as it goes, in turns, and looks at what
// the server waits for meanwhile.
func measureCeiling(ctx context.Context, s *suite.Suite) error {
	pgbench, err := findPgbench(ctx, s)
	if err != nil {
		return err
	}
	db, err := s.Lab.Database(ctx, "bench_ceiling")
	if err != nil {
		return err
	}
	if err := db.Exec(ctx, floorSchema); err != nil {
		return err
	}
	if err := db.Grant(ctx, "floor"); err != nil {
		return err
	}
	loads := []*saturation{
		{name: "pgbench's single-row INSERT", script: insertScript, commits: 1},
		{name: "claim", script: claimScript, commits: 1},
		{name: "claim + complete", script: pairScript, commits: 2},
	}
	turns := 4
	if s.Quick {
		turns = 1
	}
	for turn := range turns {
		for i := range loads {
			if turn%2 == 1 {
				i = len(loads) - 1 - i
			}
			if err := loads[i].run(ctx, s, db, pgbench); err != nil {
				return err
			}
		}
	}
	ceilingFigures(s, loads)
	return nil
}

func ceilingFigures(s *suite.Suite, loads []*saturation) {
	for _, l := range loads {
		l.figures(s)
	}
	ratios := func(l *saturation) float64 {
		joined := make([]float64, len(l.rates))
		for i := range joined {
			joined[i] = l.commits * l.rates[i] / loads[0].rates[i]
		}
		return report.Median(joined)
	}
	s.AtLeast("claims/s at saturation / pgbench's INSERTs/s", 0.8, ratios(loads[1]), "×")
	s.AtLeast("claims and completions/s at saturation / pgbench's INSERTs/s", 0.8, ratios(loads[2]), "×")
}

func (l *saturation) figures(s *suite.Suite) {
	s.Figure("ceiling", l.name+": rate", report.Median(l.rates), "/s", fmt.Sprintf("%d clients, median", ceilingClients))
	s.Figure("ceiling", l.name+": cores busy", 100*report.Median(l.busy), "%", "pgbench included")
	s.Figure("ceiling", l.name+": WAL flushes per commit", report.Median(l.walSync), "", "pg_stat_wal: group commit shares one")
	total := 0
	for _, n := range l.waits {
		total += n
	}
	names := make([]string, 0, len(l.waits))
	for name := range l.waits {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return l.waits[b] - l.waits[a] })
	for _, name := range names[:min(3, len(names))] {
		s.Figure("ceiling", l.name+": busy with "+name, 100*float64(l.waits[name])/float64(total), "%", "of pg_stat_activity's samples")
	}
}

// findPgbench prefers the one beside the running server's other programs.
func findPgbench(ctx context.Context, s *suite.Suite) (string, error) {
	var dir string
	err := s.Lab.With(ctx, "postgres", func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT setting FROM pg_catalog.pg_config WHERE name = 'BINDIR'").Scan(&dir)
	})
	if err != nil {
		return "", fmt.Errorf("find the server's programs: %w", err)
	}
	if beside := filepath.Join(dir, "pgbench"); fileExists(beside) {
		return beside, nil
	}
	found, err := exec.LookPath("pgbench")
	if err != nil {
		return "", errors.New("pgbench is not installed (Debian: `apt-get install postgresql-contrib`)")
	}
	return found, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

var pgbenchRate = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// run applies the load for one turn.
func (l *saturation) run(ctx context.Context, s *suite.Suite, db *lab.DB, pgbench string) error {
	folder, err := os.MkdirTemp("", "payonce-pgbench-")
	if err != nil {
		return fmt.Errorf("make a folder for pgbench's script: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	script := filepath.Join(folder, "script.sql")
	if err := os.WriteFile(script, []byte(l.script), 0o600); err != nil {
		return fmt.Errorf("write pgbench's script: %w", err)
	}
	seconds := max(1, int(s.Seconds(5).Seconds()))
	s.Step("%s, %d clients, %d s", l.name, ceilingClients, seconds)
	watching, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- l.watch(watching, db) }()
	before, err := walSyncs(ctx, db)
	if err != nil {
		stop()
		return errors.Join(err, <-watched)
	}
	busyBefore, allBefore := lab.BusyTime()
	output, err := exec.CommandContext(ctx, pgbench, "-n", "-M", "prepared", "-c", strconv.Itoa(ceilingClients), "-j", "2", //nolint:gosec // our own arguments
		"-T", strconv.Itoa(seconds), "-f", script, db.AppURL).CombinedOutput()
	busyAfter, allAfter := lab.BusyTime()
	stop()
	if err := errors.Join(err, <-watched); err != nil {
		return fmt.Errorf("pgbench: %w\n%s", err, output)
	}
	after, err := walSyncs(ctx, db)
	if err != nil {
		return err
	}
	match := pgbenchRate.FindSubmatch(output)
	if match == nil {
		return fmt.Errorf("pgbench told no rate:\n%s", output)
	}
	rate, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		return fmt.Errorf("pgbench's rate: %w", err)
	}
	l.rates = append(l.rates, rate)
	l.busy = append(l.busy, (busyAfter-busyBefore)/max(1, allAfter-allBefore))
	l.walSync = append(l.walSync, float64(after-before)/(rate*float64(seconds)*l.commits))
	return nil
}

func walSyncs(ctx context.Context, db *lab.DB) (int64, error) {
	var syncs int64
	return syncs, db.With(ctx, func(conn *pgx.Conn) error {
		if err := conn.QueryRow(ctx, "SELECT wal_sync FROM pg_catalog.pg_stat_wal").Scan(&syncs); err != nil {
			return fmt.Errorf("read the WAL's statistics: %w", err)
		}
		return nil
	})
}

// watch notes every 20 ms what the sessions under load are at.
func (l *saturation) watch(ctx context.Context, db *lab.DB) error {
	if l.waits == nil {
		l.waits = map[string]int{}
	}
	work := context.WithoutCancel(ctx)
	return db.With(work, func(conn *pgx.Conn) error {
		for ctx.Err() == nil {
			rows, err := conn.Query(work, `SELECT coalesce(wait_event_type || ' ' || wait_event, 'CPU'), count(*)::int
  FROM pg_catalog.pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' GROUP BY 1`)
			if err != nil {
				return fmt.Errorf("watch the server: %w", err)
			}
			var name string
			var n int
			if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { l.waits[name] += n; return nil }); err != nil {
				return fmt.Errorf("watch the server: %w", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
		return nil
	})
}
