package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/payonce/payonce/bench/internal/load"
)

// Wire forwards TCP connections and holds each piece of data back, half of a
// round trip in each direction, as a network would.
type Wire struct {
	listener net.Listener
	to       string
	delay    time.Duration
	mu       sync.Mutex
	open     map[net.Conn]struct{}
	running  sync.WaitGroup
}

// piece is data on its way.
type piece struct {
	data []byte
	due  time.Time
}

// StartWire starts forwarding to an address with an added round trip.
func StartWire(ctx context.Context, to string, roundTrip time.Duration) (*Wire, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the delayed connections: %w", err)
	}
	w := &Wire{listener: listener, to: to, delay: roundTrip / 2, open: map[net.Conn]struct{}{}}
	w.running.Go(func() { w.accept(ctx) })
	return w, nil
}

// Address is where the delayed server is reached.
func (w *Wire) Address() string { return w.listener.Addr().String() }

// Close ends all connections.
func (w *Wire) Close() error {
	err := w.listener.Close()
	w.mu.Lock()
	for conn := range w.open {
		_ = conn.Close()
	}
	w.mu.Unlock()
	w.running.Wait()
	return err
}

func (w *Wire) accept(ctx context.Context) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := dialer.DialContext(ctx, "tcp", w.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.mu.Lock()
		w.open[near], w.open[far] = struct{}{}, struct{}{}
		w.mu.Unlock()
		w.running.Go(func() { w.carry(far, near) })
		w.running.Go(func() { w.carry(near, far) })
	}
}

// carry moves data in one direction: reading goes on while earlier pieces are
// still on their way, so that the delay does not limit the throughput.
func (w *Wire) carry(to, from net.Conn) {
	pieces := make(chan piece, 1024)
	w.running.Go(func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- piece{data: buffer[:n], due: time.Now().Add(w.delay)}
			}
			if err != nil {
				return
			}
		}
	})
	var failed error
	for p := range pieces {
		if failed != nil {
			continue // the reader must not be left waiting
		}
		load.Sleep(p.due)
		if _, failed = to.Write(p.data); failed != nil {
			_ = from.Close()
		}
	}
	if closer, ok := to.(interface{ CloseWrite() error }); ok {
		if err := closer.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
			_ = to.Close()
		}
	}
}
