package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Reading is one row read from the database at scrape time. Each of its columns
// is a double precision and one gauge; null counts as 0.
type Reading struct {
	Name   string
	SQL    string
	Gauges []Gauge
}

// Gauge is a column of a Reading. Label, where it has one, is name and value.
type Gauge struct {
	Name  string
	Help  string
	Label [2]string
}

// keys tells where idempotency keys stand, by the database's clock.
var keys = Reading{
	Name: "keys",
	SQL: `SELECT s.held::double precision, s.in_doubt::double precision, s.completed::double precision,
       s.expired::double precision,
       extract(epoch FROM pg_catalog.clock_timestamp() - s.oldest_lease_past_due)::double precision,
       extract(epoch FROM pg_catalog.clock_timestamp() - s.oldest_expired_at)::double precision
  FROM guard.stats() AS s`,
	Gauges: []Gauge{
		{Name: "keys", Help: keysHelp, Label: [2]string{"state", "held"}},
		{Name: "keys", Help: keysHelp, Label: [2]string{"state", "in_doubt"}},
		{Name: "keys", Help: keysHelp, Label: [2]string{"state", "completed"}},
		{Name: "keys", Help: keysHelp, Label: [2]string{"state", "expired"}},
		{Name: "keys_in_doubt_oldest_age_seconds", Help: "Time since the oldest lease ended without a response."},
		{Name: "purge_lag_seconds", Help: "Time since the oldest key expired that is not purged yet."},
	},
}

const keysHelp = "Idempotency keys, by state; expired ones wait for the purge."

// Backlog tells what waits in schema payments.
var Backlog = Reading{
	Name: "backlog",
	SQL: `SELECT b.due_charges::double precision, b.due_refunds::double precision,
       extract(epoch FROM pg_catalog.clock_timestamp() - b.oldest_due_charge)::double precision,
       extract(epoch FROM pg_catalog.clock_timestamp() - b.oldest_due_refund)::double precision,
       b.undelivered::double precision,
       extract(epoch FROM pg_catalog.clock_timestamp() - b.oldest_effect)::double precision,
       b.open_cases::double precision,
       extract(epoch FROM pg_catalog.clock_timestamp() - b.oldest_case)::double precision
  FROM payments.backlog() AS b`,
	Gauges: []Gauge{
		{Name: "reconciler_due", Help: dueHelp, Label: [2]string{"work", string(Charge)}},
		{Name: "reconciler_due", Help: dueHelp, Label: [2]string{"work", string(Refund)}},
		{Name: "reconciler_lag_seconds", Help: lagHelp, Label: [2]string{"work", string(Charge)}},
		{Name: "reconciler_lag_seconds", Help: lagHelp, Label: [2]string{"work", string(Refund)}},
		{Name: "outbox_undelivered", Help: "Effects in the outbox that no receiver has taken."},
		{Name: "outbox_oldest_age_seconds", Help: "Age of the oldest effect that no receiver has taken."},
		{Name: "cases_open", Help: "Cases that wait for a person."},
		{Name: "cases_oldest_age_seconds", Help: "Age of the oldest case that waits for a person."},
	},
}

const (
	dueHelp = "Charges or refunds that are past the time of their next inquiry."
	lagHelp = "Time since the oldest of them was due."
)

const (
	// scrapeWait bounds what a scrape waits for the database; Prometheus gives up
	// after 10 seconds by default.
	scrapeWait = 5 * time.Second
	// readTimeout bounds one reading. One that a scrape did not wait for is there
	// for the next.
	readTimeout = time.Minute
	// freshFor is how long a reading counts at least, and freshTimes how many times
	// what it took: reading a large table costs the database no more than a part.
	freshFor   = 15 * time.Second
	freshTimes = 20
)

// reader reads at scrape time, each reading once at a time however many ask.
type reader struct {
	readings []*cached
	success  *prometheus.Desc
	age      *prometheus.Desc
}

func newReader(pool *pgxpool.Pool, log *slog.Logger, readings []Reading) *reader {
	r := &reader{
		success: prometheus.NewDesc("payonce_db_reading_success",
			"1 when the newest reading from the database succeeded, else 0.", []string{"reading"}, nil),
		age: prometheus.NewDesc("payonce_db_reading_age_seconds",
			"Age of the newest reading from the database.", []string{"reading"}, nil),
	}
	for _, reading := range readings {
		one := &cached{pool: pool, log: log, reading: reading}
		for _, gauge := range reading.Gauges {
			var label prometheus.Labels
			if gauge.Label[0] != "" {
				label = prometheus.Labels{gauge.Label[0]: gauge.Label[1]}
			}
			one.descriptions = append(one.descriptions, prometheus.NewDesc("payonce_"+gauge.Name, gauge.Help, nil, label))
		}
		r.readings = append(r.readings, one)
	}
	return r
}

// Describe implements prometheus.Collector.
func (r *reader) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- r.success
	descriptions <- r.age
	for _, one := range r.readings {
		for _, description := range one.descriptions {
			descriptions <- description
		}
	}
}

// Collect implements prometheus.Collector.
func (r *reader) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	timeout := time.After(scrapeWait)
	var running []<-chan struct{}
	for _, one := range r.readings {
		running = append(running, one.refresh())
	}
	for _, done := range running {
		select {
		case <-done:
		case <-timeout:
			timeout = closed
		}
	}
	for _, one := range r.readings {
		values, at, failed := one.last()
		if failed {
			gauge(r.success, 0, one.reading.Name)
			continue
		}
		if values == nil {
			continue // the first reading is still running
		}
		gauge(r.success, 1, one.reading.Name)
		gauge(r.age, time.Since(at).Seconds(), one.reading.Name)
		for i, value := range values {
			gauge(one.descriptions[i], value)
		}
	}
}

// closed is a timeout that is over.
var closed = func() <-chan time.Time {
	over := make(chan time.Time)
	close(over)
	return over
}()

// cached is a reading and what it last gave.
type cached struct {
	pool         *pgxpool.Pool
	log          *slog.Logger
	reading      Reading
	descriptions []*prometheus.Desc

	mu      sync.Mutex
	running chan struct{} // closed when the reading that runs has ended
	values  []float64
	at      time.Time
	took    time.Duration
	failed  bool
}

func (c *cached) last() (values []float64, at time.Time, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values, c.at, c.failed
}

// refresh reads anew unless what was read is fresh or a reading runs already.
func (c *cached) refresh() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := max(freshFor, freshTimes*c.took)
	switch {
	case c.running != nil && !isClosed(c.running):
	case c.values != nil && time.Since(c.at) < fresh:
	default:
		c.running = make(chan struct{})
		go c.read(c.running)
	}
	return c.running
}

func isClosed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func (c *cached) read(done chan struct{}) {
	defer close(done)
	start := time.Now()
	values, err := c.ask()
	if err != nil {
		c.log.Warn("metrics could not be read from the database; the next scrape tries again", "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values, c.at, c.took, c.failed = values, time.Now(), time.Since(start), err != nil
}

func (c *cached) ask() ([]float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	columns := make([]*float64, len(c.reading.Gauges))
	targets := make([]any, len(columns))
	for i := range columns {
		targets[i] = &columns[i]
	}
	if err := c.pool.QueryRow(ctx, c.reading.SQL).Scan(targets...); err != nil {
		return nil, fmt.Errorf("read %s: %w", c.reading.Name, err)
	}
	values := make([]float64, len(columns))
	for i, column := range columns {
		if column != nil {
			values[i] = max(0, *column)
		}
	}
	return values, nil
}
