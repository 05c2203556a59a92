package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds the try of one server before the next.
const dialTimeout = time.Second

// balancer hands TCP connections to servers in turn, past those that refuse
// them. It does not look into requests, so that a paused server gets its share.
type balancer struct {
	listener net.Listener
	servers  []string
	next     atomic.Uint64
	running  sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

func newBalancer(ctx context.Context, servers []string) (*balancer, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the balancer: %w", err)
	}
	b := &balancer{listener: listener, servers: servers, open: map[net.Conn]struct{}{}}
	b.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			b.running.Go(func() { b.serve(ctx, client) })
		}
	})
	return b, nil
}

func (b *balancer) url() string { return "http://" + b.listener.Addr().String() }

func (b *balancer) close() {
	_ = b.listener.Close()
	b.mu.Lock()
	b.closed = true
	for conn := range b.open {
		_ = conn.Close()
	}
	b.mu.Unlock()
	b.running.Wait()
}

// keep remembers a connection to close; false: the balancer is closed already.
func (b *balancer) keep(conn net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.open[conn] = struct{}{}
	}
	return !b.closed
}

func (b *balancer) drop(conn net.Conn) {
	_ = conn.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, conn)
}

func (b *balancer) serve(ctx context.Context, client net.Conn) {
	defer b.drop(client)
	server := b.dial(ctx)
	if server == nil {
		return
	}
	defer b.drop(server)
	if !b.keep(client) || !b.keep(server) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{server, client}, {client, server}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	both.Wait()
}

func (b *balancer) dial(ctx context.Context) net.Conn {
	dialer := net.Dialer{Timeout: dialTimeout}
	first := b.next.Add(1)
	for i := range uint64(len(b.servers)) {
		address := b.servers[(first+i)%uint64(len(b.servers))]
		if server, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			return server
		}
	}
	return nil
}
