//go:build !linux

package load

import "time"

// Sleep waits for a time to come.
func Sleep(until time.Time) { time.Sleep(time.Until(until)) }
