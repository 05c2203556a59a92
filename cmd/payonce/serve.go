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

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/housekeeping"
	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/outbox"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/reconcile"
)

func newServe() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the payment API",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
			all, err := providers.Configured(os.Getenv)
			if err != nil {
				return err
			}
			return s.serve(cmd.Context(), all, log, nil)
		},
	}
	s.serverFlags(cmd.Flags())
	return cmd
}

// serve runs the API until ctx ends, then finishes running requests. ready is
// called once, with the URL of the database and the API's address, when the
// API is about to answer.
func (s *settings) serve(
	ctx context.Context, all []psp.Provider, log *slog.Logger, ready func(databaseURL, address string) error,
) error {
	url, stopDatabase, err := s.openDatabase(ctx, log)
	if err != nil {
		return err
	}
	defer stopDatabase()
	if err := s.checkSchema(ctx, url); err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, url, append(guard.Statements(), payments.Statements()...)...)
	if err != nil {
		return err
	}
	defer pool.Close()
	service, err := payments.New(pool, all, s.limits, log)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listen for the API: %w (choose another address with --listen)", err)
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
	reconciler := reconcile.New(service, httpapi.StoredCharge, httpapi.StoredRefund, log)
	running.Go(func() { reconciler.Run(background) })
	defer running.Wait()
	defer stopBackground()
	log.InfoContext(ctx, "serving the API", "address", listener.Addr().String())
	return s.run(ctx, listener, httpapi.New(service, payments.NewAPIKeys(pool), log))
}

// run serves until ctx ends, then lets running requests finish.
func (s *settings) run(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.stopWithin)
		defer cancel()
		stopped <- server.Shutdown(bounded)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the API: %w", err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("stop the API: requests were still running after %s: %w", s.stopWithin, err)
	}
	return nil
}
