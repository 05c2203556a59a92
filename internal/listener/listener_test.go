package listener_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/listener"
	"github.com/payonce/payonce/internal/tlstest"
)

// files are a certificate and a key on disk.
type files struct {
	t         *testing.T
	cert, key string
}

func newFiles(t *testing.T) files {
	t.Helper()
	return files{t, filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")}
}

// put replaces a file at once, as a renewal does.
func (f files) put(path string, content []byte) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(f.t, os.Rename(path+".new", path))
}

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serve answers "hello" with the protocol that was spoken.
func serve(t *testing.T, options listener.Options) net.Listener {
	t.Helper()
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	opened, err := listener.Open(t.Context(), options)
	require.NoError(t, err)
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 {
				_, _ = io.WriteString(w, "hello over HTTP/2")
				return
			}
			_, _ = io.WriteString(w, "hello over HTTP/1")
		}),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(opened) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended: %v", err)
		}
	})
	return opened
}

// shake connects and tells which certificate the server has.
func shake(t *testing.T, address string, config *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	dialer := &tls.Dialer{Config: config}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState(), nil
}

func TestTLSHandshakes(t *testing.T) {
	t.Parallel()
	ca, on := tlstest.NewAuthority(t), newFiles(t)
	cert, key := ca.Issue("first", "localhost")
	on.put(on.cert, cert)
	on.put(on.key, key)
	address := serve(t, listener.Options{Address: "127.0.0.1:0", CertFile: on.cert, KeyFile: on.key}).Addr().String()

	for version, taken := range map[uint16]bool{
		tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true,
	} {
		config := ca.Client("localhost")
		config.MaxVersion = version
		state, err := shake(t, address, config)
		if !taken {
			require.ErrorContains(t, err, "protocol version", tls.VersionName(version))
			continue
		}
		require.NoError(t, err, tls.VersionName(version))
		require.Equal(t, version, state.Version)
		require.Equal(t, "first", state.PeerCertificates[0].Subject.CommonName)
	}

	for protocols, spoken := range map[string]string{"h2": "hello over HTTP/2", "http/1.1": "hello over HTTP/1"} {
		config := ca.Client("localhost")
		config.NextProtos = []string{protocols}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: protocols == "h2"}}
		require.Equal(t, spoken, get(t, client, "https://"+address))
		client.CloseIdleConnections()
	}
	stranger := tlstest.NewAuthority(t).Client("localhost")
	_, err := shake(t, address, stranger)
	require.ErrorContains(t, err, "signed by unknown authority", "the handshake is a real one")
}

func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

func TestRenewedCertificateIsServed(t *testing.T) {
	t.Parallel()
	ca, on := tlstest.NewAuthority(t), newFiles(t)
	cert, key := ca.Issue("first", "localhost")
	on.put(on.cert, cert)
	on.put(on.key, key)
	log := &lines{}
	address := serve(t, listener.Options{
		Address: "127.0.0.1:0", CertFile: on.cert, KeyFile: on.key, Log: slog.New(slog.NewTextHandler(log, nil)),
	}).Addr().String()
	served := func() string {
		state, err := shake(t, address, ca.Client("localhost"))
		require.NoError(t, err)
		return state.PeerCertificates[0].Subject.CommonName
	}
	require.Equal(t, "first", served())

	// Half of a renewal: the certificate is there, its key is not yet.
	cert, key = ca.Issue("second", "localhost")
	on.put(on.cert, cert)
	require.Eventually(t, func() bool {
		require.Equal(t, "first", served(), "nobody is turned away meanwhile")
		return bytes.Contains([]byte(log.String()), []byte("cannot be read"))
	}, 20*time.Second, 50*time.Millisecond)
	on.put(on.key, key)
	require.Eventually(t, func() bool { return served() == "second" }, 20*time.Second, 50*time.Millisecond)
	require.Contains(t, log.String(), "certificate renewed")

	require.NoError(t, os.Remove(on.cert))
	require.Eventually(t, func() bool {
		require.Equal(t, "second", served())
		return bytes.Contains([]byte(log.String()), []byte("no such file"))
	}, 20*time.Second, 50*time.Millisecond)
	require.NotContains(t, log.String(), "PRIVATE KEY")
}

func TestCertificatesThatCannotBeServed(t *testing.T) {
	t.Parallel()
	ca, on := tlstest.NewAuthority(t), newFiles(t)
	cert, key := ca.Issue("first", "localhost")
	_, other := ca.Issue("second", "localhost")
	for says, c := range map[string]struct{ cert, key []byte }{
		"private key does not match public key": {cert, other},
		"failed to find any PEM data":           {cert, []byte("nothing")},
		"no such file":                          {nil, key},
	} {
		_ = os.Remove(on.cert)
		if c.cert != nil {
			on.put(on.cert, c.cert)
		}
		on.put(on.key, c.key)
		_, err := listener.Open(t.Context(), listener.Options{Address: "127.0.0.1:0", CertFile: on.cert, KeyFile: on.key})
		require.ErrorContains(t, err, says)
	}
	_, err := listener.Open(t.Context(), listener.Options{Address: "127.0.0.1:0", CertFile: on.cert})
	require.ErrorContains(t, err, "give both files or neither")
}

// More connections than the bound wait, without harm to those that are open.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	address := serve(t, listener.Options{Address: "127.0.0.1:0", MaxConnections: 3}).Addr().String()
	var idle []net.Conn
	for range 3 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		idle = append(idle, conn)
	}
	answered := make(chan string, 1)
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+address, nil)
		if err == nil {
			var response *http.Response
			if response, err = client.Do(request); err == nil {
				_ = response.Body.Close()
				answered <- response.Status
				return
			}
		}
		answered <- err.Error()
	}()
	select {
	case early := <-answered:
		t.Fatalf("a fourth connection was served: %s", early)
	case <-time.After(300 * time.Millisecond):
	}
	_ = idle[0].Close()
	require.Equal(t, "200 OK", <-answered)
}

func TestPlainAddressThatOthersReachIsTold(t *testing.T) {
	t.Parallel()
	ca, on := tlstest.NewAuthority(t), newFiles(t)
	cert, key := ca.Issue("first", "localhost")
	on.put(on.cert, cert)
	on.put(on.key, key)
	for _, c := range []struct {
		options listener.Options
		told    bool
	}{
		{listener.Options{Address: "127.0.0.1:0"}, false},
		{listener.Options{Address: "0.0.0.0:0"}, true},
		{listener.Options{Address: "0.0.0.0:0", CertFile: on.cert, KeyFile: on.key}, false},
	} {
		log := &lines{}
		c.options.Log = slog.New(slog.NewTextHandler(log, nil))
		opened, err := listener.Open(t.Context(), c.options)
		require.NoError(t, err)
		require.NoError(t, opened.Close())
		require.Equal(t, c.told, log.String() != "", "%+v: %s", c.options, log)
	}
}
