package psp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// ErrUnsent marks an error of a request of which not one byte left: no
// connection to the provider could be made.
var ErrUnsent = errors.New("no connection to the provider could be made")

// ErrAnswerTooLarge means that an answer was longer than any of a provider's is.
var ErrAnswerTooLarge = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)

// maxAnswer bounds an answer, in bytes; the largest, a Stripe object with all
// that belongs to it, has some ten thousand.
const maxAnswer = 1 << 20

// NewClient makes the HTTP client of an adapter out of base, which is not
// changed; nil is http.DefaultClient. It marks errors with ErrUnsent, bounds
// answers and follows no redirect: a request that was answered by a redirect
// was sent, and must not count as unsent because the next address does not
// answer; nor is what it holds for another address.
func NewClient(base *http.Client) *http.Client {
	if base == nil {
		base = http.DefaultClient
	}
	client := *base
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client.Transport = bounded{unsentMarker{next}}
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

// bounded ends the reading of an answer that is too large, whoever reads it.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err == nil {
		response.Body = &boundedBody{response.Body, maxAnswer}
	}
	return response, err //nolint:wrapcheck // a transport hands the error on as it is
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(into []byte) (int, error) {
	// One byte more than is left tells an answer of just that size from one that
	// goes on.
	n, err := b.ReadCloser.Read(into[:min(len(into), b.left+1)])
	if n > b.left {
		n, b.left = b.left, 0
		return n, ErrAnswerTooLarge
	}
	b.left -= n
	return n, err
}
