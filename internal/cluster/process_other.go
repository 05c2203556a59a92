//go:build !linux

package cluster

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

// runsServer tells whether a process is a PostgreSQL server on this folder.
func runsServer(ctx context.Context, pid int, dataDir string) bool {
	output, err := exec.CommandContext(ctx, "ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(output), dataDir)
}
