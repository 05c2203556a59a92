package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/payonce/payonce/bench/internal/report"
	"github.com/payonce/payonce/bench/internal/suite"
)

// peersFolder is the module of the comparison, seen from the repository's root.
const peersFolder = "bench/peers"

// measurePeers runs the comparison, which is a module and so a program of its
// own, with its own server, and takes over what it found.
func measurePeers(ctx context.Context, s *suite.Suite) error {
	if _, err := os.Stat(peersFolder); err != nil {
		return fmt.Errorf("find the comparison (run bench from the repository's root): %w", err)
	}
	folder, err := os.MkdirTemp("", "payonce-peers-")
	if err != nil {
		return fmt.Errorf("make a folder for the comparison's results: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	program := filepath.Join(folder, "peers")
	build := exec.CommandContext(ctx, "go", "build", "-C", peersFolder, "-o", program, ".") //nolint:gosec // our own arguments
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the comparison: %w\n%s", err, output)
	}
	run := exec.CommandContext(ctx, program, "-scale", strconv.FormatFloat(s.Scale, 'g', -1, 64), //nolint:gosec // as above
		"-quick="+strconv.FormatBool(s.Quick), "-data-dir", s.DataDir, "-out", folder)
	run.Stdout, run.Stderr = s.Out, os.Stderr
	// On an interrupt it stops its servers itself.
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	if err := run.Run(); err != nil {
		return fmt.Errorf("run the comparison: %w", err)
	}
	found, err := report.Read(folder)
	if err != nil {
		return err
	}
	s.Result.Add(found)
	return nil
}
