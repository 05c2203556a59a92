package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/pspsim"
)

func newDev() *cobra.Command {
	var s settings
	var apiKey string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start database, migrations, PSP simulator and server in one, for a first look",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.dev(cmd.Context(), apiKey, cmd.OutOrStdout())
		},
	}
	s.serverFlags(cmd.Flags())
	cmd.Flags().StringVar(&s.simListen, "sim-listen", "127.0.0.1:9090", "address of the PSP simulator")
	cmd.Flags().StringVar(&apiKey, "api-key", "sk_dev_payonce", "api key of merchant dev")
	markSecret(cmd.Flags(), "api-key")
	return cmd
}

func (s *settings) dev(ctx context.Context, apiKey string, out io.Writer) error {
	log := newLog()
	stopTracing, err := s.startTracing(ctx, log)
	if err != nil {
		return err
	}
	defer stopTracing()
	s.autoMigrate = true
	if access, err := s.console.access(); err != nil {
		return err
	} else if !access.Enabled() {
		s.console.password = devConsolePassword
	}
	keys, err := pspsim.LoadOrCreateKeys(filepath.Join(s.dataDir, "keys"))
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.simListen)
	if err != nil {
		return fmt.Errorf("listen for the simulator: %w (choose another address with --sim-listen)", err)
	}
	server := "http://" + s.listen
	stopSimulator := simulate(listener, pspsim.Options{Keys: keys, NotifyURL: server, Logger: log}, log)
	defer stopSimulator()
	simulator := "http://" + listener.Addr().String()
	all, err := providers.Simulated(keys, simulator, server, s.tracing.Client())
	if err != nil {
		return err
	}
	return s.serve(ctx, all, log, func(databaseURL, address string) error {
		err := withConnection(ctx, databaseURL, func(conn *pgx.Conn) error {
			return payments.StoreAPIKey(ctx, conn, apiKey, "dev", "development")
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, welcome, address, simulator, address, apiKey, simulator, s.consoleLine(address))
		return err
	})
}

const welcome = `
payonce is ready: API http://%s, PSP simulator %s.
Charge an order of 10.00 CNY through Alipay:

curl -si http://%s/v1/charges \
  -H 'Authorization: Bearer %s' \
  -H 'Idempotency-Key: my-first-payment' \
  -d '{"order_id":"order-1","provider":"alipay","amount":1000,"currency":"CNY","subject":"Tea"}'

The same line again gives the same bytes, with Idempotency-Replayed: true.
The money that moved: curl -s %s/ledger
%s
`

// simulate serves the simulator until the returned function is called.
func simulate(listener net.Listener, options pspsim.Options, log *slog.Logger) func() {
	simulator := pspsim.New(options)
	server := &http.Server{Handler: simulator.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the simulator stopped", "error", err)
		}
	}()
	return func() {
		simulator.Close()
		_ = server.Close()
	}
}
