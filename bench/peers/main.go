// Command peers measures the guard beside what else could keep a payment from
// happening twice: the textbook's SQL, Redis, DBOS and River. It is a module of
// its own, so that payonce does not carry their dependencies.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/bench/internal/load"
	"github.com/payonce/payonce/bench/internal/report"
	"github.com/payonce/payonce/bench/internal/suite"
)

// poolSize is how many connections each of them has.
const poolSize = 16

// peer is one way to do a piece of work once.
type peer struct {
	name string
	// fresh does the work under a new key, replay asks for it again under one
	// whose work is done.
	fresh, replay func(context.Context) error
	close         func()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	scale := flag.Float64("scale", 1, "stretches every measurement; 1 is the reference")
	dataDir := flag.String("data-dir", "/var/tmp", "folder on a disk, for the servers' files while they run")
	out := flag.String("out", "", "folder for the results")
	quick := flag.Bool("quick", false, "one client only")
	flag.Parse()
	err := run(ctx, *scale, *quick, *dataDir, *out)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, scale float64, quick bool, dataDir, out string) error {
	l, err := lab.Start(ctx, dataDir)
	if err != nil {
		return err
	}
	defer func() { _ = l.Stop(context.WithoutCancel(ctx)) }()
	s, err := suite.New(ctx, l, scale, quick, os.Stdout)
	if err != nil {
		return err
	}
	peers, err := openPeers(ctx, l)
	defer func() {
		for _, p := range peers {
			p.close()
		}
	}()
	if err != nil {
		return err
	}
	if err := measure(ctx, s, peers); err != nil {
		return err
	}
	if out == "" {
		return nil
	}
	return s.Result.Write(out)
}

// openPeers starts them all; the ones that started are returned with an error
// too, to be closed.
func openPeers(ctx context.Context, l *lab.Lab) ([]*peer, error) {
	var peers []*peer
	for _, open := range []func(context.Context, *lab.Lab) (*peer, error){
		openGuard, openTextbook, openRedisAlways, openRedisEverySecond, openDBOS, openRiver,
	} {
		p, err := open(ctx, l)
		if err != nil {
			return peers, err
		}
		peers = append(peers, p)
	}
	return peers, nil
}

func measure(ctx context.Context, s *suite.Suite, peers []*peer) error {
	clients := []int{1, 8}
	if s.Quick {
		clients = clients[:1]
	}
	for _, n := range clients {
		var fresh, replays []*load.Op
		for _, p := range peers {
			fresh = append(fresh, operation(p.name, p.fresh))
			replays = append(replays, operation(p.name+", again", p.replay))
		}
		s.Step("peers: %d clients, as fast as they go", n)
		condition := report.Condition{Experiment: "peers", Clients: n}
		err := errors.Join(
			s.Compare(ctx, condition, s.Seconds(0.45), 5, fresh...),
			s.Compare(ctx, condition, s.Seconds(0.3), 5, replays...))
		if err != nil {
			return err
		}
		if err := target(s, condition); err != nil {
			return err
		}
	}
	return nil
}

func operation(name string, do func(context.Context) error) *load.Op {
	return load.NewOp(name, func(ctx context.Context, _ int, _ int64) error { return do(ctx) })
}

func target(s *suite.Suite, condition report.Condition) error {
	ours, err := s.Result.Find(condition, guardName)
	if err != nil {
		return err
	}
	dbos, err := s.Result.Find(condition, dbosName)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("a DBOS workflow with one step / claim + complete, p50, clients: %d", condition.Clients)
	s.AtLeast(name, 5, report.Ratio(dbos, ours, report.P50), "×")
	return nil
}
