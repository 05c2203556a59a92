package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/tracing"
)

// newLog is the log of a server: JSON lines on standard error, each with the
// request that it is about.
func newLog() *slog.Logger {
	return slog.New(httpguard.LogHandler(slog.NewJSONHandler(os.Stderr, nil)))
}

// startTracing starts tracing when the environment wants it; the returned
// function sends the last spans.
func (s *settings) startTracing(ctx context.Context, log *slog.Logger) (stop func(), err error) {
	s.tracing, err = tracing.FromEnvironment(ctx, log)
	return func() { s.tracing.Stop(ctx, log) }, err
}

// openPool is postgres.Open with traced calls.
func (s *settings) openPool(ctx context.Context, url string, statements ...string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	s.tracing.Pool(config)
	return postgres.OpenConfig(ctx, config, statements...)
}
