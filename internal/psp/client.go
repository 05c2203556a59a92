package psp

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// ErrUnsent marks an error of a request of which not one byte left: no
// connection to the provider could be made.
var ErrUnsent = errors.New("no connection to the provider could be made")

// NewClient makes the HTTP client of an adapter out of base, which is not
// changed; nil is http.DefaultClient. It marks errors with ErrUnsent and
// follows no redirect: a request that was answered by a redirect was sent, and
// must not count as unsent because the next address does not answer.
func NewClient(base *http.Client) *http.Client {
	if base == nil {
		base = http.DefaultClient
	}
	client := *base
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client.Transport = unsentMarker{next}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

type unsentMarker struct{ next http.RoundTripper }

// RoundTrip asks for both proofs: the error is that of a dial, and no
// connection was ever handed to the request. Anything else may have been sent.
func (m unsentMarker) RoundTrip(request *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	ctx := httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	response, err := m.next.RoundTrip(request.WithContext(ctx))
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == "dial" && !connected.Load() {
		err = fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	return response, err
}
