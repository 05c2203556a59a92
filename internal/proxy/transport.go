package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// Connections are the limits of the connections to the upstream.
type Connections struct {
	// Dial bounds connecting.
	Dial time.Duration
	// Idle is how long an unused connection is kept. Shorter than the
	// upstream's own limit, so that it never hangs up on a request.
	Idle time.Duration
}

// DefaultConnections stays below the 5 seconds after which Node.js hangs up,
// the shortest limit of the usual servers.
func DefaultConnections() Connections {
	return Connections{Dial: 5 * time.Second, Idle: 3 * time.Second}
}

// newTransport speaks HTTP/1.1 with the upstream and leaves bodies as they
// are. HTTP/2 is left out since net/http sends a request again on its own
// there, and one connection carries many requests, so that nobody can tell
// whether this one left.
func newTransport(limits Connections) *http.Transport {
	dialer := &net.Dialer{Timeout: limits.Dial, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, fmt.Errorf("connect to the upstream: %w", err)
			}
			return &countedConn{Conn: conn}, nil
		},
		DisableCompression:     true,
		TLSHandshakeTimeout:    limits.Dial,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        limits.Idle,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    1024,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// countedConn counts what was written, so that a failed request is known to
// have been sent or not.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	// Counted before: what the kernel took in part was sent, too.
	c.written.Add(int64(len(p)))
	return c.Conn.Write(p) //nolint:wrapcheck // the transport looks at it
}

// CloseWrite passes on that a client of an upgraded connection sends no more.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite() //nolint:wrapcheck // the reverse proxy looks at it
	}
	return errors.ErrUnsupported
}

// sentWatch tells whether a request left for the upstream.
type sentWatch struct {
	mu   sync.Mutex
	uses []use
}

// use is a connection that the request was given, and what had been written
// to it before.
type use struct {
	conn   *countedConn
	before int64
}

func (s *sentWatch) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		conn := got.Conn
		if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
			conn = secured.NetConn()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if counted, ok := conn.(*countedConn); ok {
			s.uses = append(s.uses, use{counted, counted.written.Load()})
			return
		}
		s.uses = append(s.uses, use{})
	}})
}

// surelyNot reports that not one byte of the request was written. ended tells
// that the transport gave up by itself: then it writes no more. When it was
// stopped, it may be about to write on a connection that it has.
func (s *sentWatch) surelyNot(ended bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, use := range s.uses {
		if !ended || use.conn == nil || use.conn.written.Load() > use.before {
			return false
		}
	}
	return true
}
