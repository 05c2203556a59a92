package metrics

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// poolCollector tells of the connections to the database.
type poolCollector struct {
	pool *pgxpool.Pool

	connections, maximum, acquires, waits, waited, cancelled *prometheus.Desc
}

func newPoolCollector(pool *pgxpool.Pool) *poolCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("payonce_db_pool_"+name, help, labels, nil)
	}
	return &poolCollector{
		pool:        pool,
		connections: desc("connections", "Connections to the database, by state.", "state"),
		maximum:     desc("max_connections", "Connections that the pool may have."),
		acquires:    desc("acquires_total", "Times that a connection was taken from the pool."),
		waits:       desc("waits_total", "Times that none was free, so that the caller waited or one was opened."),
		waited:      desc("wait_seconds_total", "Time that callers waited for a connection."),
		cancelled:   desc("canceled_acquires_total", "Times that a caller gave up waiting for a connection."),
	}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(descriptions chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, descriptions)
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(metrics chan<- prometheus.Metric) {
	stat := c.pool.Stat()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	counter := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value)
	}
	gauge(c.connections, float64(stat.AcquiredConns()), "acquired")
	gauge(c.connections, float64(stat.IdleConns()), "idle")
	gauge(c.connections, float64(stat.ConstructingConns()), "opening")
	gauge(c.maximum, float64(stat.MaxConns()))
	counter(c.acquires, float64(stat.AcquireCount()))
	counter(c.waits, float64(stat.EmptyAcquireCount()))
	counter(c.waited, stat.EmptyAcquireWaitTime().Seconds())
	counter(c.cancelled, float64(stat.CanceledAcquireCount()))
}
