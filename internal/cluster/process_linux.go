package cluster

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
)

// runsServer tells whether a process is a PostgreSQL server on this folder.
func runsServer(_ context.Context, pid int, dataDir string) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && bytes.Contains(line, []byte(dataDir))
}
