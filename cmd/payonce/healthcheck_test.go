package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			w.WriteHeader(http.StatusNoContent)
		case "/slow":
			<-r.Context().Done()
		default:
			http.Error(w, "the database is away", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	check := func(args ...string) error {
		root := newRoot()
		root.SetArgs(append([]string{"healthcheck"}, args...))
		return root.ExecuteContext(t.Context())
	}
	require.NoError(t, check(server.URL+"/readyz"))
	require.ErrorContains(t, check(server.URL+"/else"), "503 Service Unavailable: the database is away")
	require.ErrorContains(t, check(server.URL+"/slow", "--within", "50ms"), "deadline exceeded")
	require.ErrorContains(t, check("ftp://127.0.0.1/"), "unsupported protocol scheme")
}
