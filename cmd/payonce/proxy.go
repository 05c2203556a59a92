package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/housekeeping"
	"github.com/payonce/payonce/internal/proxy"
	"github.com/payonce/payonce/internal/version"
)

// proxySettings are what only the proxy needs to know.
type proxySettings struct {
	settings

	upstream    string
	routes      string
	probeListen string
	connections proxy.Connections
}

func newProxy() *cobra.Command {
	var s proxySettings
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Put the guard in front of any HTTP service",
		Long: `Stands in front of an HTTP service that stays as it is. A request that may
change something needs an Idempotency-Key: the first with a key reaches the
service, each retry gets the stored answer. docs/proxy.md has the routes file.

  payonce proxy --upstream http://127.0.0.1:9000 --listen 127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := newLog()
			stopTracing, err := s.startTracing(cmd.Context(), log)
			if err != nil {
				return err
			}
			defer stopTracing()
			return s.proxy(cmd.Context(), log, nil)
		},
	}
	s.proxyFlags(cmd.Flags())
	_ = cmd.MarkFlagRequired("upstream")
	return cmd
}

func (s *proxySettings) proxyFlags(flags *pflag.FlagSet) {
	s.databaseFlags(flags)
	s.listenerFlags(flags)
	s.tlsFlags(flags)
	flags.StringVar(&s.upstream, "upstream", "", "URL of the service: scheme, host and perhaps a path in front of every path")
	flags.StringVar(&s.routes, "routes", "", "routes file; empty: every request that may change something needs a key")
	flags.StringVar(&s.probeListen, "probe-listen", "", "address of /healthz, /readyz and /metrics; empty: none")
	limits := proxy.DefaultConnections()
	flags.DurationVar(&s.connections.Dial, "upstream-dial", limits.Dial, "bound on connecting to the service")
	flags.DurationVar(&s.connections.Idle, "upstream-idle", limits.Idle,
		"how long an unused connection to the service is kept; shorter than the service keeps it")
}

// proxy serves until ctx ends, then finishes running requests. ready is called
// once, with the URL of the database and the proxy's address, when it is about
// to answer.
func (s *proxySettings) proxy(
	ctx context.Context, log *slog.Logger, ready func(databaseURL, address string) error,
) error {
	config, err := s.config()
	if err != nil {
		return err
	}
	upstream, err := url.Parse(s.upstream)
	if err != nil {
		return fmt.Errorf("--upstream: %w", err)
	}
	databaseURL, stopDatabase, err := s.openDatabase(ctx, log)
	if err != nil {
		return err
	}
	defer stopDatabase()
	if err := s.checkSchema(ctx, databaseURL); err != nil {
		return err
	}
	pool, err := s.openPool(ctx, databaseURL, guard.Statements()...)
	if err != nil {
		return err
	}
	defer pool.Close()
	handler, err := proxy.New(proxy.Options{
		Upstream: upstream, Config: config, Connections: s.connections, Pool: pool, Log: log,
		Tracing: s.tracing,
	})
	if err != nil {
		return err
	}
	stopProbes, err := s.serveProbes(ctx, handler.Probes(), log)
	if err != nil {
		return err
	}
	defer stopProbes()
	listener, err := s.open(ctx, log)
	if err != nil {
		return err
	}
	if ready != nil {
		if err := ready(databaseURL, listener.Addr().String()); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	background, stopBackground := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { housekeeping.Purge(background, pool, s.purgeEvery, log) })
	defer running.Wait()
	defer stopBackground()
	log.InfoContext(ctx, "guarding", "upstream", upstream.Redacted(), "address", listener.Addr().String(),
		"version", version.Get().Version)
	// No limit on a whole request or answer: what is not guarded may be a stream.
	// The proxy bounds what it guards.
	server := &http.Server{
		Handler: s.tracing.Handler(handler), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	return s.runServer(ctx, listener, server, stopping{drain: handler.Drain, halt: handler.Halt})
}

func (s *proxySettings) config() (proxy.Config, error) {
	if s.routes == "" {
		return proxy.DefaultConfig(), nil
	}
	text, err := os.ReadFile(s.routes)
	if err != nil {
		return proxy.Config{}, fmt.Errorf("--routes: %w", err)
	}
	config, err := proxy.ParseConfig(text)
	if err != nil {
		return proxy.Config{}, fmt.Errorf("%s: %w", s.routes, err)
	}
	return config, nil
}

// serveProbes answers probes until the returned function is called.
func (s *proxySettings) serveProbes(ctx context.Context, handler http.Handler, log *slog.Logger) (func(), error) {
	if s.probeListen == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.probeListen)
	if err != nil {
		return nil, fmt.Errorf("listen for probes: %w (choose another address with --probe-listen)", err)
	}
	server := &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.ErrorContext(ctx, "probes ended", "error", err)
		}
	}()
	return func() { _ = server.Close() }, nil
}
