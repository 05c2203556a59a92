package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/operator"
)

func newOrders() *cobra.Command {
	cmd := &cobra.Command{Use: "orders", Short: "Look at orders"}
	cmd.AddCommand(newOrdersShow())
	return cmd
}

func newOrdersShow() *cobra.Command {
	var s settings
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ORDER",
		Short: "Show an order with its charges and refunds, and tell its story in time order",
		Long: `Shows an order of any merchant and all that the tables know of it, in time
order: claims, calls to providers and their answers, notifications, effects,
what people did. A replay writes nothing, so replays are not in it.
` + keysHelp + `

Exit code: 0 shown, 1 failed, 2 there is no such order.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.withDesk(cmd.Context(), func(desk *operator.Desk) error {
				order, err := desk.Order(cmd.Context(), args[0])
				if errors.Is(err, operator.ErrNotFound) {
					return exitError{exitRefused, fmt.Errorf("there is no order %s", shown(args[0]))}
				}
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), order)
				}
				return printOrder(cmd.OutOrStdout(), order)
			})
		},
	}
	s.databaseFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
