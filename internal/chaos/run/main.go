// Command run is `make chaos`: it breaks everything under payonce for minutes
// and judges.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/chaos"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run
	}
}

func command() *cobra.Command {
	options := chaos.Options{Progress: os.Stderr}
	var failover string
	var asJSON bool
	cmd := &cobra.Command{
		Use:           "chaos",
		Short:         "Break everything under payonce for minutes, and judge whether anybody paid twice",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Failover = chaos.Failover(failover)
			report, err := chaos.Run(cmd.Context(), options)
			if err != nil {
				return err
			}
			if asJSON {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(report)
			} else {
				err = report.Print(cmd.OutOrStdout())
			}
			if err != nil {
				return err
			}
			if broken := report.Broken(); len(broken) > 0 {
				return fmt.Errorf("%d promises were broken", len(broken))
			}
			return nil
		},
	}
	cmd.AddCommand(renderCommand())
	flags := cmd.Flags()
	flags.Uint64Var(&options.Seed, "seed", 1, "repeats what is attempted and when; not how it interleaves")
	flags.DurationVar(&options.Duration, "duration", 3*time.Minute, "how long clients buy and things break; settling comes on top")
	flags.IntVar(&options.Servers, "servers", 3, "how many servers serve")
	flags.IntVar(&options.Clients, "clients", 24, "how many clients buy")
	flags.StringVar(&failover, "failover", string(chaos.NoFailover), "none, synchronous or asynchronous: lose the primary while traffic runs")
	flags.StringVar(&options.Dir, "dir", "", "keep the servers' logs and data in this folder")
	flags.BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	return cmd
}

func renderCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "render",
		Short: "Write the figures of docs/reliability/*.json into docs/reliability.md",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			const path = "docs/reliability.md"
			page, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read the page: %w", err)
			}
			written, err := chaos.Page(string(page), "docs/reliability")
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(written), 0o644) //nolint:gosec // a page for everybody
		},
	}
}
