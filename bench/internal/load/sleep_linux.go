package load

import (
	"syscall"
	"time"
)

// coarse is how late a timer of Go's may be when nothing else runs: its poller
// waits in whole milliseconds.
const coarse = 2 * time.Millisecond

// Sleep waits for a time to come, to some 50 µs. The last stretch is spent in
// the kernel's own timer, on a thread of its own.
func Sleep(until time.Time) {
	if left := time.Until(until); left > coarse {
		time.Sleep(left - coarse)
	}
	if left := time.Until(until); left > 0 {
		rest := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&rest, nil) // woken early by a signal: as good as late
	}
}
