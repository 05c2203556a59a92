package psp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/freeport"
	"github.com/payonce/payonce/internal/psp"
)

func post(t *testing.T, client *http.Client, address string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("pay"))
	require.NoError(t, err)
	response, err := client.Do(request)
	if err == nil {
		require.NoError(t, response.Body.Close())
	}
	return err
}

// closedAddress is one where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address(t.Context())
	require.NoError(t, err)
	return "http://" + address
}

func TestUnsent(t *testing.T) {
	t.Parallel()
	err := post(t, psp.NewClient(nil), closedAddress(t))
	require.ErrorIs(t, err, psp.ErrUnsent)
	var operation *net.OpError
	require.ErrorAs(t, err, &operation, "the cause stays visible")
}

func TestCutConnectionMayHaveBeenSent(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(server.Close)
	err := post(t, psp.NewClient(nil), server.URL)
	require.Error(t, err)
	require.NotErrorIs(t, err, psp.ErrUnsent)
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	away := closedAddress(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, away, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	require.NoError(t, post(t, psp.NewClient(nil), server.URL), "the redirect is the answer")
	require.ErrorIs(t, post(t, &http.Client{Transport: psp.NewClient(nil).Transport}, server.URL), psp.ErrUnsent,
		"a client that follows it would call a sent request unsent")
}

// roundTrip is a transport under the caller's control.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestDoubtIsNeverUnsent(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, transport := range map[string]roundTrip{
		"timeout":          func(*http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded },
		"reset while read": func(*http.Request) (*http.Response, error) { return nil, &net.OpError{Op: "read", Err: io.EOF} },
	} {
		require.NotErrorIs(t, post(t, psp.NewClient(&http.Client{Transport: transport}), "http://127.0.0.1:9"), psp.ErrUnsent, name)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	second := roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, dial
	})
	require.NotErrorIs(t, post(t, psp.NewClient(&http.Client{Transport: second}), server.URL), psp.ErrUnsent,
		"a dial that failed after a connection was there proves nothing")
}

// An endless answer, as of a machine in the middle, ends an attempt and not the
// server's memory.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20
	for size, whole := range map[int]bool{0: true, bound: true, bound + 1: false, 50 * bound: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(endless{}, int64(size)))
		}))
		t.Cleanup(server.Close)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		response, err := psp.NewClient(nil).Do(request)
		require.NoError(t, err)
		read, err := io.ReadAll(response.Body)
		require.NoError(t, response.Body.Close())
		require.Len(t, read, min(size, bound))
		if whole {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, psp.ErrAnswerTooLarge)
		}
	}
}

type endless struct{}

func (endless) Read(into []byte) (int, error) { return len(into), nil }
