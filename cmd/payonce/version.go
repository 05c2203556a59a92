package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/version"
	"github.com/payonce/payonce/migrations"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Tell the version, what it was built from, and the schema that it needs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := migrations.Newest()
			if err != nil {
				return err
			}
			this := version.Get()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
					version.Info
					Schema int32 `json:"schema"`
				}{this, schema})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "payonce %s\nschema version %d\n", this, schema)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
