package childproc

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts cmd and has the kernel send it the signal when this program
// dies, whatever kills it. exited is closed when the process has gone. The
// kernel watches the thread that started the process, so that thread stays
// until then.
func Start(cmd *exec.Cmd, signal syscall.Signal, exited chan<- struct{}) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = signal
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
