package main

import (
	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/guardsql"
)

func newSQL() *cobra.Command {
	return &cobra.Command{
		Use:   "sql",
		Short: "Print the guard alone as one SQL file for psql",
		Long: `Prints the guard's schema, table, functions and grants, for services in any
language that call the SQL functions themselves:

  payonce sql | psql -v ON_ERROR_STOP=1 mydb

Installing it again is harmless and brings an older guard up to this version.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return guardsql.Print(cmd.OutOrStdout()) },
	}
}
