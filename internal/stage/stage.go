// Package stage puts payonce on a stage: real server processes that can be
// killed, paused and started again, the providers' simulator with a ledger, and
// a receiver of mails that counts. Demonstrations and fault tests play on it.
package stage

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build compiles the payonce program into dir and returns its path. It needs
// the Go toolchain, and this module's folder as the current one or above it.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "payonce")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/payonce/payonce/cmd/payonce") //nolint:gosec // our own program
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build payonce: %w\n%s", err, output)
	}
	return path, nil
}

// environment is ours without payonce's settings, which a server on the stage
// gets from the stage alone.
func environment(settings []string) []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PAYONCE_") {
			kept = append(kept, variable)
		}
	}
	return append(kept, settings...)
}
