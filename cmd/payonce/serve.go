package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/console"
	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/housekeeping"
	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/outbox"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/reconcile"
	"github.com/payonce/payonce/internal/version"
)

func newServe() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the payment API",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := newLog()
			stopTracing, err := s.startTracing(cmd.Context(), log)
			if err != nil {
				return err
			}
			defer stopTracing()
			all, err := providers.Configured(os.Getenv, s.tracing.Client())
			if err != nil {
				return err
			}
			return s.serve(cmd.Context(), all, log, nil)
		},
	}
	s.serverFlags(cmd.Flags())
	s.tlsFlags(cmd.Flags())
	return cmd
}

// serve runs the API until ctx ends, then finishes running requests. ready is
// called once, with the URL of the database and the API's address, when the
// API is about to answer.
func (s *settings) serve(
	ctx context.Context, all []psp.Provider, log *slog.Logger, ready func(databaseURL, address string) error,
) error {
	if s.outboxURL != "" {
		if err := outbox.CheckURL(s.outboxURL); err != nil {
			return fmt.Errorf("--outbox-url: %w", err)
		}
	}
	url, stopDatabase, err := s.openDatabase(ctx, log)
	if err != nil {
		return err
	}
	defer stopDatabase()
	if err := s.checkSchema(ctx, url); err != nil {
		return err
	}
	pool, err := s.openPool(ctx, url, append(guard.Statements(), payments.Statements()...)...)
	if err != nil {
		return err
	}
	defer pool.Close()
	service, err := payments.New(pool, all, s.limits, log)
	if err != nil {
		return err
	}
	api := httpapi.New(service, payments.NewAPIKeys(pool), log)
	service.Trace(s.tracing.Tracer())
	reconciler := reconcile.New(service, httpapi.StoredCharge, httpapi.StoredRefund, log)
	traced := s.tracing.Handler(api, "/healthz", "/readyz", "/metrics")
	handler, closeConsole, err := s.withConsole(ctx, traced, url, console.Options{
		Reconciler: reconciler, Figures: api.Figures, Metrics: service.Metrics(), Log: log,
	})
	if err != nil {
		return err
	}
	defer closeConsole()
	listener, err := s.open(ctx, log)
	if err != nil {
		return fmt.Errorf("serve the API: %w", err)
	}
	if ready != nil {
		if err := ready(url, listener.Addr().String()); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	background, stopBackground := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { housekeeping.Purge(background, pool, s.purgeEvery, log) })
	if s.outboxURL != "" {
		running.Go(func() { outbox.Deliver(background, pool, s.outboxURL, log) })
	}
	running.Go(func() { reconciler.Run(background) })
	defer running.Wait()
	defer stopBackground()
	log.InfoContext(ctx, "serving the API", "address", listener.Addr().String(), "version", version.Get().Version)
	return s.run(ctx, listener, handler, stopping{drain: api.Drain, halt: service.Halt})
}

// stopping is what a server does before and after it waits for running requests.
type stopping struct {
	// drain makes it look unready, halt ends what still runs, which is left in
	// doubt.
	drain, halt func()
}

// settleTime is how long halted requests may take to record where they stand.
const settleTime = 12 * time.Second

// run serves until ctx ends. Then it looks unready for a while but serves on,
// so that load balancers turn away; takes no more connections and lets running
// requests finish; and at last halts those that have not.
func (s *settings) run(ctx context.Context, listener net.Listener, handler http.Handler, stop stopping) error {
	return s.runServer(ctx, listener, s.newServer(handler), stop)
}

// newServer bounds what a client can make the server keep: how long it may
// take, and how large its header is. Handlers bound what they read of a body.
func (s *settings) newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		// Above all that a charge may take: the deadline of its provider, and
		// beginning and ending it in a database that is slow.
		WriteTimeout:   s.limits.Lease + time.Minute,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 32 << 10,
	}
}

// runServer is run for a server with limits of its own.
func (s *settings) runServer(ctx context.Context, listener net.Listener, server *http.Server, stop stopping) error {
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		stop.drain()
		time.Sleep(s.drainDelay)
		stopped <- shutdown(context.WithoutCancel(ctx), server, s.stopWithin, stop.halt)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("stop: requests were still running %s after they were halted: %w", settleTime, err)
	}
	return nil
}

func shutdown(ctx context.Context, server *http.Server, within time.Duration, halt func()) error {
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := server.Shutdown(waiting); err == nil {
		return nil
	}
	halt()
	settling, cancelSettling := context.WithTimeout(ctx, settleTime)
	defer cancelSettling()
	return server.Shutdown(settling) //nolint:wrapcheck // the caller says what did not stop
}
