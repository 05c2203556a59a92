//go:build !linux

package cluster

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

// startBound starts the server. This system cannot tie it to our life: after a
// kill -9 of payonce the server stays, and the next start says so.
func startBound(cmd *exec.Cmd, exited chan<- struct{}) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	return nil
}

// runsServer tells whether a process is a PostgreSQL server on this folder.
func runsServer(ctx context.Context, pid int, dataDir string) bool {
	output, err := exec.CommandContext(ctx, "ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(output), dataDir)
}
