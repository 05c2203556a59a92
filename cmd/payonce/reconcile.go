package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/postgres"
	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/reconcile"
)

func newReconcile() *cobra.Command {
	var s settings
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Ask the providers about every charge and refund that is due, once",
		Long: `Asks the providers about every charge and refund whose holder died, that was
left in doubt, or that waits for a buyer, as far as its next inquiry is due, and
records what they say. It never moves money. serve does the same by itself, so
this is for looking now; both may run at once.

The providers are configured by the environment, as for serve.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.databaseURL == "" {
				return errNoDatabase
			}
			log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			all, err := providers.Configured(os.Getenv, nil)
			if err != nil {
				return err
			}
			pool, err := postgres.Open(cmd.Context(), s.databaseURL, append(guard.Statements(), payments.Statements()...)...)
			if err != nil {
				return err
			}
			defer pool.Close()
			service, err := payments.New(pool, all, payments.DefaultLimits(), log)
			if err != nil {
				return err
			}
			found, err := reconcile.New(service, httpapi.StoredCharge, httpapi.StoredRefund, log).Once(cmd.Context())
			return errors.Join(printInquiries(cmd.OutOrStdout(), found, asJSON), err)
		},
	}
	s.databaseFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// inquiryLine is what the command tells of one charge or refund.
type inquiryLine struct {
	OrderID  string          `json:"order_id"`
	ID       string          `json:"id"`
	Provider string          `json:"provider"`
	Status   payments.Status `json:"status"`
	Key      guard.Outcome   `json:"key,omitempty"`
}

func lineOf(inquiry payments.Inquiry) inquiryLine {
	if inquiry.Refund.ID != "" {
		r := inquiry.Refund
		return inquiryLine{OrderID: r.OrderID, ID: r.ID, Provider: r.Provider, Status: r.Status, Key: inquiry.Outcome}
	}
	c := inquiry.Charge
	return inquiryLine{OrderID: c.OrderID, ID: c.ID, Provider: c.Provider, Status: c.Status, Key: inquiry.Outcome}
}

func printInquiries(out io.Writer, found []payments.Inquiry, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		for _, inquiry := range found {
			if err := encoder.Encode(lineOf(inquiry)); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		return nil
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "nothing is due")
		return err //nolint:wrapcheck // printing
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ORDER\tCHARGE OR REFUND\tPROVIDER\tSTATUS\tKEY")
	for _, inquiry := range found {
		l := lineOf(inquiry)
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", l.OrderID, l.ID, l.Provider, l.Status, l.Key)
	}
	return table.Flush() //nolint:wrapcheck // printing
}
