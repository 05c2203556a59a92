package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/demo"
)

func newDemo() *cobra.Command {
	var options demo.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show in a minute what happens without the guard, and with it",
		Long: `Lets the same customers buy through the same faults twice: first from a shop
without a guard, then from payonce. Both are processes of their own, which are
killed with -9 in the middle of a charge; the providers are simulated over their
real protocols. Then it counts what is in the providers' ledger, the database and
the customers' mailbox.

Exits with an error when the guarded side charged anybody twice, or lost a
payment, or anything else came out wrong.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if options.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			options.Progress = cmd.ErrOrStderr()
			result, err := demo.Run(cmd.Context(), options)
			if err != nil {
				return err
			}
			if asJSON {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(result)
			} else {
				_, _ = fmt.Fprintln(cmd.OutOrStdout())
				err = result.Table(cmd.OutOrStdout())
			}
			if len(result.Broken) > 0 {
				err = errors.Join(err, fmt.Errorf("the guarded side broke a promise: %s", strings.Join(result.Broken, "; ")))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&options.DatabaseURL, "database-url", "",
		"libpq URL of a PostgreSQL server on which the demo makes a database and drops it; empty: it starts one")
	markSecret(cmd.Flags(), "database-url")
	cmd.Flags().Uint64Var(&options.Seed, "seed", 1, "repeats a run: who buys, through which provider, in which order")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}
