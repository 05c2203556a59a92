// Command payonce serves the payment API and the tools around it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		code, silent := exitCode(err)
		if !silent {
			fmt.Fprintln(os.Stderr, "payonce:", err)
		}
		stop()
		os.Exit(code) //nolint:gocritic // stop has run
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "payonce",
		Short: "Payments that happen exactly once, guarded inside PostgreSQL",
		Long: `payonce makes each payment happen exactly once. A client's idempotency key is
claimed, replayed, refused and completed by PL/pgSQL functions in your own
PostgreSQL; this program is the HTTP layer and the tools around them.

Every flag can be set in the environment too: --database-url is
PAYONCE_DATABASE_URL. What may hold a secret can be in a file, whose name is in
PAYONCE_DATABASE_URL_FILE.`,
		Version:           version.Get().String(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd) },
	}
	root.AddCommand(newServe(), newDev(), newMigrate(), newSQL(), newAPIKey(), newReconcile(), newProxy(), newDoctor(),
		newKeys(), newOrders(), newDemo(), newUnguarded(), newVersion(),
		newHealthcheck())
	root.SetVersionTemplate("payonce {{.Version}}\n")
	return root
}
