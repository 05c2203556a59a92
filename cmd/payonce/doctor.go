package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/doctor"
)

func newDoctor() *cobra.Command {
	var s settings
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what endangers the guard: settings, standbys, schema, purge, work left undone",
		Long: `Looks at the database and its server and tells what is wrong, why it matters
and what to do: settings that lose a committed claim, a standby that may lack it,
another version's schema, missing rights, a purge that does not run, charges that
nobody asks about. It only reads. docs/operations.md lists all it can find.

Exit code: 0 nothing has to be done (notes may be printed), 1 it could not look,
2 it found problems or warnings.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withConnection(cmd.Context(), s.databaseURL, func(conn *pgx.Conn) error {
				report, err := doctor.Examine(cmd.Context(), conn)
				if err != nil {
					return err
				}
				if err := printReport(cmd.OutOrStdout(), report, asJSON); err != nil {
					return err
				}
				if !report.Healthy() {
					return exitError{code: exitFound}
				}
				return nil
			})
		},
	}
	s.databaseFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printReport(out io.Writer, report doctor.Report, asJSON bool) error {
	if asJSON {
		return printJSON(out, report)
	}
	colours := map[doctor.Severity]colour{doctor.Problem: red, doctor.Warning: yellow, doctor.Note: plain}
	p := painterFor(out)
	var text strings.Builder
	fmt.Fprintf(&text, "PostgreSQL %s, database %s, role %s: %d checks\n", report.Server, report.Database, report.Role, report.Checks)
	for _, finding := range report.Findings {
		fmt.Fprintf(&text, "\n%s  %s: %s\n  why  %s\n  do   %s\n",
			p.paint(colours[finding.Severity], strings.ToUpper(string(finding.Severity))), finding.Code, finding.What, finding.Why, finding.Do)
	}
	if report.Healthy() {
		fmt.Fprintf(&text, "\n%s\n", p.paint(green, "nothing has to be done"))
	}
	_, err := io.WriteString(out, text.String())
	return err //nolint:wrapcheck // printing
}

// printJSON prints one value, indented.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
