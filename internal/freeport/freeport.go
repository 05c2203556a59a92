// Package freeport finds ports of loopback for servers that are told theirs,
// and for addresses at which nobody is to answer.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports below those that Linux gives to who asks for any (32768 to 60999,
// ip_local_port_range): in the meantime no server started on port 0 gets one.
const first, last = 10_000, 32_767

// Address is an address on 127.0.0.1 at which nobody listens. Nothing reserves
// it: two callers get the same one with a chance of one in twenty thousand.
func Address(ctx context.Context) (string, error) {
	var err error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first+1)) //nolint:gosec // no secret
		var listener net.Listener
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
