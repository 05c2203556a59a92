package main

import (
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/unguarded"
)

// newUnguarded is the other side of the demo, as a process that can be killed.
func newUnguarded() *cobra.Command {
	s := settings{stopWithin: 10 * time.Second}
	cmd := &cobra.Command{
		Use:    "unguarded",
		Short:  "Serve a shop without a guard, for the demo",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			all, err := providers.Configured(os.Getenv, nil)
			if err != nil {
				return err
			}
			pool, err := postgres.Open(ctx, s.databaseURL, unguarded.Statements()...)
			if err != nil {
				return err
			}
			defer pool.Close()
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
			if err != nil {
				return err
			}
			shop := unguarded.NewShop(pool, s.outboxURL, slog.New(slog.NewJSONHandler(os.Stderr, nil)), all...)
			return s.run(ctx, listener, shop, stopping{drain: func() {}, halt: func() {}})
		},
	}
	cmd.Flags().StringVar(&s.databaseURL, "database-url", "", "libpq URL of the database")
	cmd.Flags().StringVar(&s.listen, "listen", "127.0.0.1:8080", "address to serve on")
	cmd.Flags().StringVar(&s.outboxURL, "outbox-url", "", "where mails are posted to")
	markSecret(cmd.Flags(), "database-url", "outbox-url")
	return cmd
}
