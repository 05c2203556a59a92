package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/payonce/payonce/internal/cluster"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/migrations"
)

const (
	databaseName = "payonce"
	standbyName  = "standby"
	merchant     = "chaos"
	apiKey       = "sk_chaos"

	// appRole may do what payonce_app may and no more.
	appRole     = "payonce_chaos"
	appPassword = "payonce_chaos"

	// replicationLag is how far an asynchronous standby is behind.
	replicationLag = 2 * time.Second
)

// database is PostgreSQL as the servers reach it: each through proxies of its
// own, that can be cut, slowed and silenced. With failover there are two places
// for a PostgreSQL server, one of them the primary's.
type database struct {
	dir      string
	failover Failover
	api      *toxiproxy.ApiServer

	mu          sync.Mutex // held while the primary is killed, restarted or replaced
	places      [2]*cluster.Cluster
	primary     int
	made        int // servers made so far, each with a folder of its own
	links       [][]*toxiproxy.Proxy
	replication *toxiproxy.Proxy
}

// newDatabase starts a primary, with a standby where there is failover, and
// proxies for so many servers.
func newDatabase(ctx context.Context, dir string, failover Failover, servers int) (*database, error) {
	d := &database{
		dir: dir, failover: failover,
		api: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
	}
	if err := d.open(ctx, servers); err != nil {
		return nil, errors.Join(err, d.close(context.WithoutCancel(ctx)))
	}
	return d, nil
}

func (d *database) open(ctx context.Context, servers int) error {
	folder, err := d.folder()
	if err != nil {
		return err
	}
	if d.places[0], err = cluster.Start(ctx, cluster.Options{DataDir: folder, Database: databaseName, Settings: settings()}); err != nil {
		return err
	}
	for range servers {
		links := make([]*toxiproxy.Proxy, d.failover.places())
		for place := range links {
			// Nothing listens on port 1, which stands for a place without a server.
			links[place] = toxiproxy.NewProxy(d.api, fmt.Sprintf("server %d to place %d", len(d.links), place), "127.0.0.1:0", "127.0.0.1:1")
		}
		links[0].Upstream = d.places[0].Address()
		for _, link := range links {
			if err := startLink(link); err != nil {
				return err
			}
		}
		d.links = append(d.links, links)
	}
	if d.failover == NoFailover {
		return nil
	}
	return d.makeStandby(ctx)
}

// settings keep commits durable and the cluster small.
func settings() map[string]string {
	return map[string]string{"max_connections": "150"}
}

// folder makes the folder of the next server; PostgreSQL's account has to pass
// through.
func (d *database) folder() (string, error) {
	d.made++
	folder := filepath.Join(d.dir, fmt.Sprintf("database-%d", d.made))
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // see above
		return "", fmt.Errorf("make a folder for a PostgreSQL server: %w", err)
	}
	return folder, nil
}

// makeStandby makes a standby in the place that is free and lets the servers
// find it there. The caller holds mu, or is alone.
func (d *database) makeStandby(ctx context.Context) error {
	place := 1 - d.primary
	folder, err := d.folder()
	if err != nil {
		return err
	}
	primary := d.places[d.primary]
	through := ""
	if d.failover == Asynchronous {
		d.replication = toxiproxy.NewProxy(d.api, "replication", "127.0.0.1:0", primary.Address())
		if err := startLink(d.replication); err != nil {
			return err
		}
		through = d.replication.Listen
	}
	standby, err := primary.Replicate(ctx, standbyName, through, cluster.Options{DataDir: folder, Settings: settings()})
	if err != nil {
		return err
	}
	d.places[place] = standby
	for _, links := range d.links {
		if err := repoint(links[place], standby.Address()); err != nil {
			return err
		}
	}
	if d.failover == Asynchronous {
		return addToxic(d.replication, "latency", "downstream", map[string]int64{"latency": replicationLag.Milliseconds()})
	}
	return primary.Await(ctx, standbyName)
}

func repoint(link *toxiproxy.Proxy, upstream string) error {
	link.Stop()
	link.Lock()
	link.Upstream = upstream
	link.Unlock()
	return startLink(link)
}

// startLink lets connections through, also where somebody else did already.
func startLink(link *toxiproxy.Proxy) error {
	if err := link.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		return fmt.Errorf("start a proxy before PostgreSQL: %w", err)
	}
	return nil
}

// addToxic changes what a proxy does to its connections.
func addToxic(link *toxiproxy.Proxy, kind, stream string, attributes map[string]int64) error {
	toxic, err := json.Marshal(map[string]any{"name": kind + stream, "type": kind, "stream": stream, "attributes": attributes})
	if err != nil {
		return fmt.Errorf("write a toxic: %w", err)
	}
	if _, err := link.Toxics.AddToxicJson(bytes.NewReader(toxic)); err != nil {
		return fmt.Errorf("add toxic %s: %w", kind, err)
	}
	return nil
}

// ownerURL connects to the primary, past the proxies, as the schemas' owner.
func (d *database) ownerURL() string { return d.places[d.primary].URL() }

// serverURL is what a server is given: every place by its proxy.
func (d *database) serverURL(server int) string {
	hosts := make([]string, 0, len(d.links[server]))
	for _, link := range d.links[server] {
		hosts = append(hosts, link.Listen)
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(appRole, appPassword), Host: strings.Join(hosts, ","), Path: "/" + databaseName,
		RawQuery: url.Values{
			"sslmode": {"disable"}, "connect_timeout": {"2"}, "pool_max_conns": {"12"}, "target_session_attrs": {"read-write"},
		}.Encode(),
	}
	return u.String()
}

// owner runs do on a connection of the owner.
func (d *database) owner(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, d.ownerURL())
	if err != nil {
		return fmt.Errorf("connect to the primary: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}

// prepare makes the schema, the servers' role, the api key and the stock.
func (d *database) prepare(ctx context.Context, tamper string) error {
	return d.owner(ctx, func(conn *pgx.Conn) error {
		if err := migrations.Apply(ctx, conn); err != nil {
			return err
		}
		if err := payments.StoreAPIKey(ctx, conn, apiKey, merchant, "chaos"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "CREATE ROLE "+appRole+" LOGIN PASSWORD '"+appPassword+"' IN ROLE payonce_app"); err != nil {
			return fmt.Errorf("make the servers' role: %w", err)
		}
		for sku, pieces := range stock {
			if _, err := conn.Exec(ctx, "SELECT payments.set_stock($1, $2)", sku, pieces); err != nil {
				return fmt.Errorf("stock %s: %w", sku, err)
			}
		}
		if _, err := conn.Exec(ctx, tamper); err != nil {
			return fmt.Errorf("change the guard: %w", err)
		}
		return nil
	})
}

// crash kills the primary with -9, and starts it again after a while.
func (d *database) crash(ctx context.Context, after time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.places[d.primary].Kill()
	time.Sleep(after)
	return d.places[d.primary].Restart(context.WithoutCancel(ctx))
}

// failOver kills the primary for good, promotes the standby, and makes a new
// standby of the new primary.
func (d *database) failOver(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	old := d.primary
	d.places[old].Kill()
	if d.replication != nil {
		// What was still on its way to the standby is lost with the primary.
		d.replication.Stop()
		d.replication = nil
	}
	if err := d.places[1-old].Promote(ctx); err != nil {
		return err
	}
	d.primary = 1 - old
	if err := d.places[old].Stop(ctx); err != nil {
		return err
	}
	d.places[old] = nil
	return d.makeStandby(ctx)
}

// heal undoes whatever was done to the connections.
func (d *database) heal(ctx context.Context) error {
	for _, links := range d.links {
		for _, link := range links {
			link.Toxics.ResetToxics(ctx)
			if err := startLink(link); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *database) close(ctx context.Context) error {
	for _, links := range d.links {
		for _, link := range links {
			link.Stop()
		}
	}
	if d.replication != nil {
		d.replication.Stop()
	}
	var errs []error
	for _, place := range []int{1 - d.primary, d.primary} {
		if d.places[place] != nil {
			errs = append(errs, d.places[place].Stop(ctx))
		}
	}
	return errors.Join(errs...)
}
