//go:build !linux

package childproc

import (
	"os/exec"
	"syscall"
)

// Start starts cmd; exited is closed when the process has gone. This system
// cannot tie it to our life: after a kill -9 of this program it stays.
func Start(cmd *exec.Cmd, _ syscall.Signal, exited chan<- struct{}) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	return nil
}
