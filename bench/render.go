package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/bench/internal/report"
)

const (
	resultsFolder = "bench/results"
	documentFile  = "docs/benchmarks.md"
)

func newRender() *cobra.Command {
	return &cobra.Command{
		Use:   "render [FOLDER]",
		Short: "Draw the charts of a run and write " + documentFile + " (default: the newest run in " + resultsFolder + ")",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return render(args[0])
			}
			folder, err := newest(resultsFolder)
			if err != nil {
				return err
			}
			return render(folder)
		},
	}
}

// newest finds the run of the latest day; the folders' names begin with it.
func newest(results string) (string, error) {
	found, err := filepath.Glob(filepath.Join(results, "*", report.FileName))
	if err != nil {
		return "", fmt.Errorf("look for results: %w", err)
	}
	if len(found) == 0 {
		return "", errors.New(results + " holds no results: run `make bench` first, from the repository's root")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func render(folder string) error {
	result, err := report.Read(folder)
	if err != nil {
		return err
	}
	if err := draw(result, folder); err != nil {
		return err
	}
	var written bytes.Buffer
	if err := writeDocument(&written, result, filepath.ToSlash(folder)); err != nil {
		return err
	}
	if err := os.WriteFile(documentFile, written.Bytes(), 0o644); err != nil { //nolint:gosec // a page for everybody
		return fmt.Errorf("write %s: %w", documentFile, err)
	}
	return nil
}
