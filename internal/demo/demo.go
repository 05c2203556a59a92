// Package demo shows what payonce is for: the same customers and the same
// faults, first on a shop without a guard, then on payonce, and what each left
// in the providers' ledger.
package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/internal/cluster"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/unguarded"
	"github.com/payonce/payonce/migrations"
)

// Options say how the demo runs.
type Options struct {
	// Binary is the payonce program whose servers are started and killed.
	Binary string
	// DatabaseURL is the libpq URL of a PostgreSQL server on which the demo makes
	// a database of its own, and drops it; empty: a server is started for it.
	DatabaseURL string
	// Seed repeats a run: who buys, through which provider, in which order.
	Seed uint64
	// Progress gets a line for each customer.
	Progress io.Writer
	// tamper changes the guarded side's database, to see that the judge sees it.
	tamper string
}

// Result is how both sides ended.
type Result struct {
	Seed      uint64   `json:"seed"`
	Seconds   float64  `json:"seconds"`
	Unguarded Tally    `json:"without_the_guard"`
	Guarded   Tally    `json:"with_the_guard"`
	Broken    []string `json:"broken"`
}

// Demo is a running demonstration.
type Demo struct {
	options     Options
	dir         string
	keys        *pspsim.Keys
	databaseURL string
	db          *pgxpool.Pool
}

// Run plays the demonstration and removes what it made.
func Run(ctx context.Context, options Options) (result Result, err error) {
	started := time.Now()
	dir, err := os.MkdirTemp("", "payonce-demo-")
	if err != nil {
		return Result{}, fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL's account has to pass through
		return Result{}, fmt.Errorf("open the demo's folder: %w", err)
	}
	d := &Demo{options: options, dir: dir}
	d.say("payonce demo --seed %d\n", options.Seed)
	closeDatabase, err := d.openDatabase(ctx)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, closeDatabase()) }()
	if d.keys, err = pspsim.NewKeys(); err != nil {
		return Result{}, err
	}
	purchases := plan(options.Seed)
	result.Seed = options.Seed
	if result.Unguarded, err = d.perform(ctx, unguardedSide, purchases); err != nil {
		return Result{}, err
	}
	if result.Guarded, err = d.perform(ctx, guardedSide, purchases); err != nil {
		return Result{}, err
	}
	result.Broken = append([]string{}, result.Guarded.Broken()...)
	result.Seconds = time.Since(started).Round(100 * time.Millisecond).Seconds()
	return result, nil
}

func (d *Demo) say(format string, args ...any) {
	_, _ = fmt.Fprintf(d.options.Progress, format, args...)
}

// openDatabase makes the demo's database. The returned function removes it.
func (d *Demo) openDatabase(ctx context.Context) (func() error, error) {
	server, stop := d.options.DatabaseURL, func() error { return nil }
	if server == "" {
		d.say("starting PostgreSQL\n")
		private, err := cluster.Start(ctx, cluster.Options{DataDir: d.dir})
		if err != nil {
			return nil, err
		}
		server, stop = private.URL(), func() error { return private.Stop(context.WithoutCancel(ctx)) }
	}
	drop, err := d.makeDatabase(ctx, server)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return func() error { return errors.Join(drop(), stop()) }, nil
}

func (d *Demo) makeDatabase(ctx context.Context, server string) (drop func() error, err error) {
	var random [6]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("name the demo's database: %w", err)
	}
	name := "payonce_demo_" + hex.EncodeToString(random[:])
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("--database-url is not a URL: postgres://user:password@host/database")
	}
	u.Path = "/" + name
	d.databaseURL = u.String()
	if err := execute(ctx, server, "CREATE DATABASE "+name); err != nil {
		return nil, fmt.Errorf("make a database for the demo (the role needs CREATEDB): %w", err)
	}
	drop = func() error {
		if d.db != nil {
			d.db.Close()
		}
		return execute(context.WithoutCancel(ctx), server, "DROP DATABASE "+name+" WITH (FORCE)")
	}
	if err := d.fillDatabase(ctx); err != nil {
		return nil, errors.Join(err, drop())
	}
	return drop, nil
}

func (d *Demo) fillDatabase(ctx context.Context) error {
	var err error
	if d.db, err = pgxpool.New(ctx, d.databaseURL); err != nil {
		return fmt.Errorf("open the demo's database: %w", err)
	}
	conn, err := pgx.Connect(ctx, d.databaseURL)
	if err != nil {
		return fmt.Errorf("connect to the demo's database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := migrations.Apply(ctx, conn); err != nil {
		return err
	}
	if err := unguarded.Install(ctx, conn); err != nil {
		return err
	}
	if err := payments.StoreAPIKey(ctx, conn, apiKey, "demo", "demo"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, d.options.tamper); err != nil {
		return fmt.Errorf("change the guard: %w", err)
	}
	return prepare(ctx, d.db)
}

func execute(ctx context.Context, databaseURL, sql string) error {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err //nolint:wrapcheck // the caller says what it did
}

// Table prints both sides beside each other.
func (r Result) Table(out io.Writer) error {
	var problems []error
	line := func(name string, unguarded, guarded any) {
		_, err := fmt.Fprintf(out, "%-22s %18v %16v\n", name, unguarded, guarded)
		problems = append(problems, err)
	}
	line("", "without the guard", "with the guard")
	for _, row := range []struct {
		name               string
		unguarded, guarded int
	}{
		{"customers", r.Unguarded.Customers, r.Guarded.Customers},
		{"requests", r.Unguarded.Requests, r.Guarded.Requests},
		{"charges in the ledger", r.Unguarded.Charges, r.Guarded.Charges},
		{"double charges", r.Unguarded.DoubleCharges, r.Guarded.DoubleCharges},
		{"orders", r.Unguarded.Orders, r.Guarded.Orders},
		{"stock sold", r.Unguarded.StockSold, r.Guarded.StockSold},
		{"mails", r.Unguarded.Mails, r.Guarded.Mails},
		{"payments lost", r.Unguarded.Lost, r.Guarded.Lost},
	} {
		line(row.name, row.unguarded, row.guarded)
	}
	return errors.Join(problems...)
}
