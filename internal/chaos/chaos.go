// Package chaos breaks everything that can break under payonce, at random and
// for minutes, while clients buy: providers, servers, PostgreSQL and the
// connections between them. Then it lets everything settle and judges by the
// providers' ledger and the database whether anybody paid twice, or paid for
// nothing, or was told something that is not so.
//
// A seed repeats what is attempted and when. How it interleaves does not repeat.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/payonce/payonce/internal/freeport"
	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/stage"
)

// Failover says whether the primary is lost and replaced while traffic runs.
type Failover string

// The kinds of failover.
const (
	NoFailover Failover = "none"
	// Synchronous has each commit wait for the standby.
	Synchronous Failover = "synchronous"
	// Asynchronous has a standby that is two seconds behind.
	Asynchronous Failover = "asynchronous"
)

func (f Failover) places() int {
	if f == NoFailover {
		return 1
	}
	return 2
}

// Options say how a run goes.
type Options struct {
	Seed uint64
	// Duration is how long clients buy and things break; settling comes on top.
	Duration time.Duration
	Servers  int
	Clients  int
	Failover Failover
	// Binary is the payonce program; empty: it is built.
	Binary string
	// Dir keeps logs and data; empty: a temporary folder that is removed.
	Dir string
	// Progress gets a line now and then.
	Progress io.Writer
	// tamper changes the database, to see that the judge sees it.
	tamper string
}

// lease is the shortest that a server takes, so that what a dead or paused
// holder leaves is soon free to be asked about.
const lease = 12 * time.Second

// stock is what there is to buy. The rare one runs out.
var stock = map[string]int64{"tea": 1_000_000, "cup": 1_000_000, "rare": 40}

// world is everything that takes part in a run.
type world struct {
	options   Options
	dir       string
	database  *database
	simulator *stage.Simulator
	mailbox   *stage.Mailbox
	servers   []*stage.Server
	balancer  *balancer
	diary     *diary
	injected  *injected
	started   time.Time
}

// Run does one run and returns what the judge found. An error means that the
// run itself did not work.
func Run(ctx context.Context, options Options) (report Report, err error) {
	switch options.Failover {
	case "":
		options.Failover = NoFailover
	case NoFailover, Synchronous, Asynchronous:
	default:
		return Report{}, fmt.Errorf("failover is %q; it may be %s, %s or %s", options.Failover, NoFailover, Synchronous, Asynchronous)
	}
	dir, remove, err := folder(options.Dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	w := &world{options: options, dir: dir, diary: newDiary(), injected: newInjected(), started: time.Now()}
	err = w.open(ctx)
	defer func() { err = errors.Join(err, w.close(context.WithoutCancel(ctx))) }()
	if err != nil {
		return Report{}, err
	}
	w.say("%d servers, %d clients, %s, failover %s, seed %d", options.Servers, options.Clients, options.Duration,
		options.Failover, options.Seed)
	if err := w.run(ctx); err != nil {
		return Report{}, err
	}
	if err := w.settle(ctx); err != nil {
		return Report{}, err
	}
	w.say("every client asks once more")
	w.askAgain(ctx)
	if err := w.settle(ctx); err != nil {
		return Report{}, err
	}
	return w.judge(ctx)
}

func folder(given string) (dir string, remove func() error, err error) {
	if given != "" {
		return given, func() error { return nil }, os.MkdirAll(given, 0o755) //nolint:gosec // PostgreSQL's account has to pass through
	}
	if dir, err = os.MkdirTemp("", "payonce-chaos-"); err != nil {
		return "", nil, fmt.Errorf("make a folder for the run: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL's account has to pass through
		return "", nil, fmt.Errorf("open the run's folder: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

func (w *world) say(format string, args ...any) {
	_, _ = fmt.Fprintf(w.options.Progress, "%6.1f s  %s\n", time.Since(w.started).Seconds(), fmt.Sprintf(format, args...))
}

func (w *world) open(ctx context.Context) error {
	binary := w.options.Binary
	var err error
	if binary == "" {
		if binary, err = stage.Build(ctx, w.dir); err != nil {
			return err
		}
	}
	if w.database, err = newDatabase(ctx, w.dir, w.options.Failover, w.options.Servers); err != nil {
		return err
	}
	if err := w.database.prepare(ctx, w.options.tamper); err != nil {
		return err
	}
	addresses := make([]string, w.options.Servers)
	for i := range addresses {
		if addresses[i], err = freeport.Address(ctx); err != nil {
			return err
		}
	}
	if w.balancer, err = newBalancer(ctx, addresses); err != nil {
		return err
	}
	keys, err := pspsim.NewKeys()
	if err != nil {
		return err
	}
	if w.simulator, err = stage.NewSimulator(ctx, keys, w.balancer.url()); err != nil {
		return err
	}
	if w.mailbox, err = stage.NewMailbox(ctx); err != nil {
		return err
	}
	for i, address := range addresses {
		server, err := stage.NewServer(ctx, stage.ServerOptions{
			Binary: binary, Address: address, Dir: w.dir, Name: fmt.Sprintf("server-%d", i),
			Args: []string{"serve", "--lease", lease.String(), "--provider-deadline", "2s", "--stop-within", "3s"},
			Environment: append(w.simulator.Environment(w.balancer.url()),
				"PAYONCE_DATABASE_URL="+w.database.serverURL(i), "PAYONCE_OUTBOX_URL="+w.mailbox.URL()),
		})
		if err != nil {
			return err
		}
		w.servers = append(w.servers, server)
		if err := server.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) close(ctx context.Context) error {
	for _, server := range w.servers {
		server.Kill()
	}
	if w.balancer != nil {
		w.balancer.close()
	}
	if w.mailbox != nil {
		w.mailbox.Close()
	}
	if w.simulator != nil {
		w.simulator.Close()
	}
	if w.database == nil {
		return nil
	}
	return w.database.close(ctx)
}

// run lets clients buy and things break until the time is over, and each
// client finish what it is at.
func (w *world) run(ctx context.Context) error {
	ending, cancel := context.WithTimeout(ctx, w.options.Duration)
	defer cancel()
	var clients sync.WaitGroup
	for i := range w.options.Clients {
		c := newClient(w, i)
		clients.Go(func() { c.shop(ctx, ending) })
	}
	m := newMonkey(w)
	err := m.rage(ctx, ending)
	w.say("nothing breaks any more; what is broken is mended")
	clients.Wait()
	return errors.Join(err, ctx.Err())
}
