package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/payments"
)

func newAPIKey() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apikey",
		Short: "Make, list and revoke the api keys of merchants",
		Long:  "Makes, lists and revokes the api keys of merchants. Works as the owner of the schemas.",
	}
	cmd.AddCommand(newAPIKeyCreate(), newAPIKeyList(), newAPIKeyRevoke())
	return cmd
}

func newAPIKeyCreate() *cobra.Command {
	var s settings
	var merchant, label string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an api key and print it, once",
		Long: `Makes a random api key and prints it: the only time that it can be seen, since
the database keeps its SHA-256. A merchant may have several, so that a new one is
in use before the old one is revoked.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withConnection(cmd.Context(), s.databaseURL, func(conn *pgx.Conn) error {
				apiKey, err := payments.CreateAPIKey(cmd.Context(), conn, merchant, label)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), apiKey)
				return err
			})
		},
	}
	s.databaseFlags(cmd.Flags())
	cmd.Flags().StringVar(&merchant, "merchant", "", "merchant that the key speaks for")
	cmd.Flags().StringVar(&label, "label", "", "what the key is for")
	_ = cmd.MarkFlagRequired("merchant")
	return cmd
}

func newAPIKeyList() *cobra.Command {
	var s settings
	var merchant string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List api keys by their ids, revoked ones too",
		Long: `Lists api keys. The id of a key, the beginning of its SHA-256, is what the access
log has as api_key and what revoke takes; the key cannot be found out from it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withConnection(cmd.Context(), s.databaseURL, func(conn *pgx.Conn) error {
				keys, err := payments.ListAPIKeys(cmd.Context(), conn, merchant)
				if err != nil {
					return err
				}
				return printAPIKeys(cmd.OutOrStdout(), keys, asJSON)
			})
		},
	}
	s.databaseFlags(cmd.Flags())
	cmd.Flags().StringVar(&merchant, "merchant", "", "only keys of this merchant")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func printAPIKeys(out io.Writer, keys []payments.APIKey, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		for _, key := range keys {
			if err := encoder.Encode(key); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		return nil
	}
	if len(keys) == 0 {
		_, err := fmt.Fprintln(out, "no such api keys")
		return err //nolint:wrapcheck // printing
	}
	rows := make([][]string, 0, len(keys))
	for _, key := range keys {
		revoked := "-"
		if key.RevokedAt != nil {
			revoked = at(*key.RevokedAt)
		}
		rows = append(rows, []string{key.ID, key.Merchant, orDash(key.Label), at(key.CreatedAt), revoked})
	}
	return table(out, painterFor(out), "ID\tMERCHANT\tLABEL\tCREATED\tREVOKED", rows)
}

func newAPIKeyRevoke() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "End an api key for good",
		Long: `Revokes the api key with this id, as list and the access log show it. Servers that
have just seen the key refuse it within 5 seconds, all others at once. What was
charged with it stays, and so do its idempotency keys, which are the merchant's.

Exit code: 0 revoked, now or before, 1 failed, 2 there is no such key.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withConnection(cmd.Context(), s.databaseURL, func(conn *pgx.Conn) error {
				key, earlier, err := payments.RevokeAPIKey(cmd.Context(), conn, args[0])
				if errors.Is(err, payments.ErrUnknownAPIKey) {
					return exitError{exitRefused, fmt.Errorf("there is no api key with the id %s", shown(args[0]))}
				}
				if err != nil {
					return err
				}
				what := "revoked"
				if earlier {
					what = "was revoked before, at " + at(*key.RevokedAt)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "api key %s of merchant %s (%s) %s\n",
					key.ID, shown(key.Merchant), shown(orDash(key.Label)), what)
				return err
			})
		},
	}
	s.databaseFlags(cmd.Flags())
	return cmd
}
