// Command pspsim simulates payment service providers over their real protocols.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pspsim:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	var listen, keysDir, notifyURL, buyer string
	cmd := &cobra.Command{
		Use:   "pspsim",
		Short: "Simulate payment service providers over their real protocols",
		Long: `pspsim answers as the providers do, each below its own path, with keys that it
makes on first start. It moves no money: GET /ledger shows what would have moved.`,
		Version:       version.Get().String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if buyer != "auto" && buyer != "manual" {
				return fmt.Errorf("--buyer is %q; it may be auto or manual", buyer)
			}
			keys, err := pspsim.LoadOrCreateKeys(keysDir)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), listen, pspsim.New(pspsim.Options{
				Keys: keys, NotifyURL: notifyURL, ManualBuyer: buyer == "manual",
				Logger: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
			}))
		},
	}
	cmd.SetVersionTemplate("pspsim {{.Version}}\n")
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", fromEnvironment("PAYONCE_SIM_LISTEN", "127.0.0.1:9090"), "address of the simulator (PAYONCE_SIM_LISTEN)")
	flags.StringVar(&keysDir, "keys-dir", ".payonce/keys", "folder of the development keys, made on first start")
	flags.StringVar(&notifyURL, "notify-url", "http://127.0.0.1:8080", "base address of the server that gets notifications")
	flags.StringVar(&buyer, "buyer", "auto", "auto: the buyer pays at once; manual: POST /buyer pays")
	return cmd
}

func fromEnvironment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func serve(ctx context.Context, address string, simulator *pspsim.Simulator) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w (choose another address with --listen)", err)
	}
	server := &http.Server{Handler: simulator.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		simulator.Close()
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
