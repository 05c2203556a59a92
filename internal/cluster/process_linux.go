package cluster

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// startBound starts the server and has the kernel shut it down when this
// program dies, whatever kills it. The kernel watches the thread that started
// the server, so that thread stays until the server has gone.
func startBound(cmd *exec.Cmd, exited chan<- struct{}) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(exited)
		}
	}()
	return <-started
}

// runsServer tells whether a process is a PostgreSQL server on this folder.
func runsServer(_ context.Context, pid int, dataDir string) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && bytes.Contains(line, []byte(dataDir))
}
